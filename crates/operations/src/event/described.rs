//! The events as documented: each with its fields; `docs/look-up/events.md` is made from this table.

/// One event.
pub struct Described {
    /// Its name, the value of `event`.
    pub name: &'static str,
    /// When it is written, in Markdown.
    pub meaning: &'static str,
    /// Its fields beside those of every event, each with its meaning in Markdown.
    pub fields: &'static [(&'static str, &'static str)],
}

/// The fields of every event.
pub const COMMON: &[(&str, &str)] = &[
    ("schema", "`klab.event/1`; fields may be added to it, none changes its meaning or goes"),
    ("time", "when it happened, in UTC (RFC 3339)"),
    ("lab", "the lab or class; absent as long as it is not known which one is meant"),
    ("event", "which event it is"),
];

const ID: (&str, &str) = ("id", "number of the activity, the same in all its events of one run");
const ACTION: (&str, &str) = ("action", "what is done, as a code: `create-pool`; see [Actions](#actions)");
const COUNT: (&str, &str) = ("count", "how many of what the action counts; absent where nothing is counted");
const SUBJECT: (&str, &str) = (
    "subject",
    "what it is about, as `{\"kind\": …, \"name\": …}`; the kind is one of `lab`, `cluster`, `pool`, `node`, `step`, `workload`, `image`, `addon`, `registry`; absent where it is none of these or several",
);

/// All events.
pub const DESCRIBED: &[Described] = &[
    Described {
        name: "started",
        meaning: "An activity began.",
        fields: &[
            ID,
            ("verb", "what is being done: `Creating`"),
            ("what", "what it is done to, in words"),
            ACTION,
            SUBJECT,
            COUNT,
        ],
    },
    Described {
        name: "progress",
        meaning: "Where an activity is.",
        fields: &[ID, ("detail", "what is waited for now, in words"), ACTION, SUBJECT, COUNT],
    },
    Described {
        name: "finished",
        meaning: "An activity ended well, or something was found that needs none.",
        fields: &[
            ID,
            ("verb", "what was done: `Created`"),
            ("what", "what it was done to, in words"),
            ("elapsed_ms", "how long it took, in milliseconds; absent where time says nothing"),
            ACTION,
            SUBJECT,
            COUNT,
        ],
    },
    Described {
        name: "ended",
        meaning: "An activity is over without a result of its own; an error or a report follows.",
        fields: &[ID, ACTION, SUBJECT, COUNT],
    },
    Described {
        name: "under-way",
        meaning: "Work that continues outside klab, even if you interrupt klab.",
        fields: &[
            ("outside", "a list of sentences; empty when nothing goes on any more"),
            ("activities", "the same for programs, in the same order: each with its `action` and `subject`, as above"),
        ],
    },
    Described {
        name: "warned",
        meaning: "Something you should know, although the work continues.",
        fields: &[
            ("message", "the sentence"),
            ("code", "what is warned of, as a code: `K0634`; see [codes](codes/README.md)"),
            ("case", "the exact case: `pods-stayed`; see [Warnings](#warnings)"),
            SUBJECT,
        ],
    },
    Described {
        name: "ready",
        meaning: "The last event of a `klab up` that made one lab.",
        fields: &[
            ("provider", "the provider's name in lab files"),
            ("kubeconfig", "path of the lab's kubeconfig"),
            ("changed", "whether anything was made or changed"),
            ("created", "the objects that were created"),
            ("updated", "the objects that were changed"),
            ("pruned", "the objects that were removed, as the lab file has them no more"),
            ("unchanged", "number of objects that needed no change"),
            ("elapsed_ms", "how long it took, in milliseconds"),
        ],
    },
    Described {
        name: "class-ready",
        meaning: "The end of a `klab up LAB --seats N`; an error follows where seats failed.",
        fields: &[
            ("provider", "the provider's name in lab files"),
            ("seats", "for each seat its number (`seat`), its `lab`, whether it is `ready`, its `kubeconfig`"),
            ("made", "number of seats that were made"),
            ("kept", "number of seats that were up already"),
            ("removed", "number of seats that were removed"),
            ("failed", "numbers of the seats that could not be made"),
            ("elapsed_ms", "how long it took, in milliseconds"),
        ],
    },
    Described {
        name: "error",
        meaning: "The error that ends klab; the last line. A command that writes one document prints only this event if it fails first.",
        fields: &[
            ("code", "which problem it is, as a code: `K0801`; see [codes](codes/README.md)"),
            ("case", "the exact case: `lab-not-up`"),
            ("message", "what could not be done"),
            ("causes", "why, from the nearest cause to the first"),
            ("left_behind", "what is left, such as machines that cost money"),
            ("hints", "what to do about it"),
            ("exit_code", "klab's exit code"),
        ],
    },
];
