//! How much of what the network sends is taken.

::models::limits! {
    #[cfg(test)]
    pub(crate) LIMITS;

    /// The longest answer that is not a file.
    ANSWER = "an answer of the Hub that is no file", 64 << 20, "bytes",
        "a list of a thousand files has 300 kB; what is longer is cut, and then no JSON";
    /// The longest list of files, in answers of a thousand each.
    PAGES = "answers to one list of files", 100, "answers",
        "100,000 files, of which no model and hardly any data set has a tenth";
    /// More files than this are not taken into one list.
    FILES = "files of a repository", 100_000, "files",
        "as many as fit into the answers above";
    /// A single file that claims to be larger is not believed.
    FILE = "a file on the Hub", 4 << 40, "bytes",
        "eighty times the largest that the Hub takes";
    /// The longest description that is shown.
    CARD = "the description of a repository", 512 << 10, "bytes",
        "what is longer is cut; the longest that people read have a tenth";
    /// The longest `config.json` that is read before anything is fetched.
    CONFIG = "config.json on the Hub, before a download", 4 << 20, "bytes",
        "it is only looked at for the size of the model";
    /// As much of a file of text as is looked at for its first rows.
    PREVIEW = "the beginning of a file that is looked at", 256 << 10, "bytes",
        "twenty rows are shown";
    /// How many addresses may follow one another.
    REDIRECTS = "addresses that lead from one to the next", 8, "addresses",
        "the Hub needs two";
}
