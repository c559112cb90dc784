//! Steps of the recorded flows that are not answered as recorded yet: one row a flow. Whoever mends a step takes it off; a
//! step that is listed and does not differ fails the test.

/// Flow, steps.
#[rustfmt::skip]
pub(crate) const STEPS: &[(&str, &[usize])] = &[
    // limits2: the difference of two specs as Go prints its own structs
    ("limits2", &[
        14,
    ]),
];
