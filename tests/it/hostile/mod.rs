//! What a learner does to a cluster, by mistake or on purpose, costs nobody else anything.

mod extremes;
