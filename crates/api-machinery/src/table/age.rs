//! Ages as kubectl shows them.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/duration/duration.go HumanDuration (v1.36)

use jiff::Timestamp;
use serde_json::Value;

/// `119s`, `3m5s`, `15m`, `3h5m`, `30h`, `3d4h`, `90d`, `2y10d`.
pub(super) fn duration(seconds: i64) -> String {
    let two = |whole: i64, unit: char, part: i64, small: char| {
        if part == 0 { format!("{whole}{unit}") } else { format!("{whole}{unit}{part}{small}") }
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, 'd', hours % 24, 'h'),
        () if days < 730 => format!("{days}d"),
        () if days < 8 * 365 => two(days / 365, 'y', days % 365, 'd'),
        () => format!("{}y", days / 365),
    }
}

/// A timestamp of an object.
pub(super) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// Whole seconds from `then` to `now`.
pub(super) fn seconds(then: Timestamp, now: Timestamp) -> i64 {
    let span = now.duration_since(then);
    // Go's conversion of a duration to whole seconds rounds towards zero, as this one does.
    span.as_secs()
}

/// Time since a timestamp of an object, `<unknown>` without one.
pub(super) fn since(value: &Value, now: Timestamp) -> String {
    time(value).map_or_else(|| "<unknown>".to_owned(), |then| duration(seconds(then, now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (185, "3m5s"),
            (600, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 300, "3h5m"),
            (30 * 3600, "30h"),
            (76 * 3600, "3d4h"),
            (90 * 86400, "90d"),
            (740 * 86400, "2y10d"),
            (9 * 365 * 86400, "9y"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }
}
