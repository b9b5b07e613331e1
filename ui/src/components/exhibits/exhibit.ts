// What a model shows of itself: one form each.

export type { Exhibit, ExhibitView as Shown } from "../../api";
