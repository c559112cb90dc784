//! Steps of the recorded flows that are not answered as recorded yet: one row a flow. Whoever mends a step takes it off; a
//! step that is listed and does not differ fails the test.

/// Flow, steps.
#[rustfmt::skip]
pub(crate) const STEPS: &[(&str, &[usize])] = &[
    // crd: raw answers, in which fields stand in another order
    ("crd", &[
        45, 46,
    ]),
    // endpoints2
    ("endpoints2", &[
        50, 51, 52, 53, 57, 58,
    ]),
    // jobs2
    ("jobs2", &[
        21, 22, 23, 24, 25, 26, 36, 37, 38, 39, 40, 78,
    ]),
    // limits2
    ("limits2", &[
        14, 15, 19, 55,
    ]),
    // spread2
    ("spread2", &[
        89,
    ]),
];
