//! What must be harmless: what a learner does to a cluster, by mistake or on purpose, costs nobody else anything; lab files
//! of strangers, and what they refer to, cost nobody anything; and odd surroundings are told.

mod environment;
mod files;
mod lab_files;
mod terminal;
