//! What is counted of a class, as OpenMetrics shows it: a number for each class, never one for each seat.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::refusal::Refusal;

/// Bounds of the times that joining takes, in milliseconds.
const BOUNDS: [u64; 8] = [5, 10, 25, 50, 100, 250, 1000, 5000];

/// Counters of a class.
#[derive(Debug, Default)]
pub struct Metrics {
    joins: AtomicU64,
    refused: AtomicU64,
    guesses: AtomicU64,
    buckets: [AtomicU64; BOUNDS.len()],
    join_milliseconds: AtomicU64,
    /// Answers to learners who had a step checked.
    pub verified: AtomicU64,
    /// Steps that were passed.
    pub passed: AtomicU64,
    /// Seats that were brought back.
    pub resets: AtomicU64,
    /// Looks of the instructor into a seat.
    pub looks: AtomicU64,
    /// Seats that were judged after they changed.
    pub judged: AtomicU64,
    /// Pages that are open now.
    pub pages: AtomicU64,
    /// People whom the identity provider did not sign in, or not as it should.
    pub sign_in_failed: AtomicU64,
    /// Events that the webhook took.
    pub webhook_sent: AtomicU64,
    /// Attempts after one that failed.
    pub webhook_retried: AtomicU64,
    /// Events that could not be given to the webhook.
    pub webhook_lost: AtomicU64,
    /// Events that wait for the webhook.
    pub webhook_waiting: AtomicU64,
}

/// What is known of a class at a moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gauges {
    /// Seats.
    pub seats: usize,
    /// Most seats.
    pub most: u32,
    /// People who have come.
    pub people: usize,
    /// Whether it is open.
    pub is_open: bool,
}

/// Adds one.
pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Metrics {
    /// Somebody tried to join.
    pub fn joined<T>(&self, outcome: &Result<T, Refusal>, took: Duration) {
        match outcome {
            Ok(_) => {
                count(&self.joins);
                let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                self.join_milliseconds.fetch_add(milliseconds, Ordering::Relaxed);
                for (bound, bucket) in BOUNDS.iter().zip(&self.buckets) {
                    if milliseconds <= *bound {
                        count(bucket);
                    }
                }
            }
            Err(refusal) => {
                count(&self.refused);
                if refusal.is_guess {
                    count(&self.guesses);
                }
            }
        }
    }

    /// The text of all, of the class of a name.
    pub fn text(&self, class: &str, gauges: Gauges) -> String {
        let mut text = String::new();
        let label = format!("class=\"{}\"", class.replace(['\\', '"', '\n'], "_"));
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut gauge = |name: &str, help: &str, value: u64| {
            let _ = write!(
                text,
                "# TYPE klab_host_{name} gauge\n# HELP klab_host_{name} {help}\nklab_host_{name}{{{label}}} {value}\n"
            );
        };
        gauge("seats", "Seats that people have.", gauges.seats as u64);
        gauge("seats_limit", "Seats that the class may have.", u64::from(gauges.most));
        gauge("people", "People who have come.", gauges.people as u64);
        gauge("open", "Whether the class is open.", u64::from(gauges.is_open));
        gauge("pages", "Pages that are open.", read(&self.pages));
        gauge("webhook_waiting", "Events that wait for the webhook.", read(&self.webhook_waiting));
        let mut counter = |name: &str, help: &str, value: u64| {
            let _ = write!(
                text,
                "# TYPE klab_host_{name} counter\n# HELP klab_host_{name} {help}\nklab_host_{name}_total{{{label}}} {value}\n"
            );
        };
        counter("joins", "People who were let in, again or for the first time.", read(&self.joins));
        counter("refused", "People who were not let in.", read(&self.refused));
        counter("guesses", "Wrong codes and PINs among them.", read(&self.guesses));
        counter("verified", "Steps that were checked for learners.", read(&self.verified));
        counter("passed", "Steps that learners passed.", read(&self.passed));
        counter("resets", "Seats that were brought back.", read(&self.resets));
        counter("looks", "Looks of the instructor into a seat.", read(&self.looks));
        counter("judged", "Seats that were judged after a change.", read(&self.judged));
        counter("sign_in_failed", "Sign-ins that failed.", read(&self.sign_in_failed));
        counter("webhook_sent", "Events that the webhook took.", read(&self.webhook_sent));
        counter("webhook_retried", "Attempts to give an event to the webhook again.", read(&self.webhook_retried));
        counter("webhook_lost", "Events that the webhook did not take.", read(&self.webhook_lost));
        text.push_str(
            "# TYPE klab_host_join_seconds histogram\n# HELP klab_host_join_seconds How long joining took.\n",
        );
        for (bound, bucket) in BOUNDS.iter().zip(&self.buckets) {
            let seconds = *bound as f64 / 1000.0;
            let _ = writeln!(text, "klab_host_join_seconds_bucket{{{label},le=\"{seconds:?}\"}} {}", read(bucket));
        }
        let (joins, sum) = (read(&self.joins), read(&self.join_milliseconds) as f64 / 1000.0);
        let _ = writeln!(text, "klab_host_join_seconds_bucket{{{label},le=\"+Inf\"}} {joins}");
        let _ = writeln!(text, "klab_host_join_seconds_sum{{{label}}} {sum:?}");
        let _ = writeln!(text, "klab_host_join_seconds_count{{{label}}} {joins}");
        text.push_str("# EOF\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_numbers_and_its_seats_have_none() {
        let metrics = Metrics::default();
        metrics.joined(&Ok(()), Duration::from_millis(20));
        metrics.joined::<()>(&Err(Refusal::wrong_code()), Duration::ZERO);
        metrics.joined::<()>(&Err(Refusal::closed()), Duration::ZERO);
        let text = metrics.text("a\"b", Gauges { seats: 1, most: 10, people: 1, is_open: true });
        for line in [
            "klab_host_joins_total{class=\"a_b\"} 1",
            "klab_host_refused_total{class=\"a_b\"} 2",
            "klab_host_guesses_total{class=\"a_b\"} 1",
            "klab_host_join_seconds_bucket{class=\"a_b\",le=\"0.01\"} 0",
            "klab_host_join_seconds_bucket{class=\"a_b\",le=\"0.025\"} 1",
            "klab_host_join_seconds_bucket{class=\"a_b\",le=\"+Inf\"} 1",
            "klab_host_seats{class=\"a_b\"} 1",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        let names: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let unique: std::collections::BTreeSet<&&str> = names.iter().collect();
        assert_eq!(names.len(), unique.len());
    }
}
