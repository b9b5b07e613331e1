// Whether it is shown what speaks for a class: the same for one picture after the other.

export const heat = $state({ isOn: true });
