//! Cron schedules: five fields, or one of the `@` names.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::clock::later;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// How far ahead a next time is looked for; a schedule such as 30 February has none.
const HORIZON_DAYS: i32 = 5 * 366;
/// With more missed times than these the controller warns.
const TOO_MANY: i64 = 100;

/// A schedule, as bits of the values each field allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether the day fields start with a star; if neither does, either may match.
    any_day: bool,
    any_weekday: bool,
}

/// The latest of the times that have passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Latest {
    pub(super) time: Timestamp,
    /// Whether so many have passed that a clock must have jumped.
    pub(super) too_many: bool,
}

impl Schedule {
    /// Reads a schedule; `None` if it is not one.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text => text,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else { return None };
        let mut weekday_bits = bits(weekdays, 0, 7, &DAYS)?;
        if weekday_bits & (1 << 7) != 0 {
            weekday_bits |= 1;
        }
        Some(Self {
            minutes: bits(minutes, 0, 59, &[])?,
            hours: bits(hours, 0, 23, &[])?,
            days: bits(days, 1, 31, &[])?,
            months: bits(months, 1, 12, &MONTHS)?,
            weekdays: weekday_bits,
            any_day: days.starts_with(['*', '?']),
            any_weekday: weekdays.starts_with(['*', '?']),
        })
    }

    /// The first time after `after`.
    pub(super) fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let start = zone.to_datetime(after).checked_add(1.minute()).ok()?;
        let start = start.with().second(0).subsec_nanosecond(0).build().ok()?;
        let mut date = start.date();
        let mut from = start.time();
        for _ in 0..HORIZON_DAYS {
            if self.allows(date) {
                for time in self.times(from) {
                    let instant = zone.to_ambiguous_timestamp(DateTime::from_parts(date, time)).compatible().ok()?;
                    if instant > after {
                        return Some(instant);
                    }
                }
            }
            date = date.tomorrow().ok()?;
            from = Time::midnight();
        }
        None
    }

    /// The last time up to `now` that follows `since`, and whether there were too many of them to be an oversight.
    ///
    /// Times are not counted one by one: they may be of two thousand years.
    // upstream: pkg/controller/cronjob/utils.go mostRecentScheduleTime (v1.36)
    pub(super) fn latest(&self, since: Timestamp, now: Timestamp, zone: &TimeZone) -> Option<Latest> {
        let first = self.next(since, zone).filter(|first| *first <= now)?;
        let Some(second) = self.next(first, zone).filter(|second| *second <= now) else {
            return Some(Latest { time: first, too_many: false });
        };
        let interval = first.duration_until(second).as_secs();
        let missed = first.duration_until(now).as_secs().checked_div(interval)?.saturating_add(1);
        // One interval further back than it takes, for schedules whose times are not evenly spaced.
        let back = interval.saturating_mul(missed.saturating_sub(2));
        let mut latest = None;
        let mut from = later(first, SignedDuration::from_secs(back));
        while let Some(time) = self.next(from, zone).filter(|time| *time <= now) {
            (latest, from) = (Some(time), time);
        }
        latest.map(|time| Latest { time, too_many: missed > TOO_MANY })
    }

    fn allows(&self, date: Date) -> bool {
        let has = |bits: u64, value: i8| bits & (1 << value) != 0;
        if !has(self.months, date.month()) {
            return false;
        }
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        if self.any_day || self.any_weekday { day && weekday } else { day || weekday }
    }

    fn times(&self, from: Time) -> impl Iterator<Item = Time> + '_ {
        (from.hour()..24).filter(|hour| self.hours & (1 << hour) != 0).flat_map(move |hour| {
            let first = if hour == from.hour() { from.minute() } else { 0 };
            (first..60)
                .filter(|minute| self.minutes & (1 << minute) != 0)
                .filter_map(move |minute| Time::new(hour, minute, 0, 0).ok())
        })
    }
}

/// The bits of one field: lists of `*`, `a`, `a-b`, each with an optional `/step`.
fn bits(field: &str, least: u8, most: u8, names: &[&str]) -> Option<u64> {
    let value = |text: &str| -> Option<u8> {
        let lower = text.to_ascii_lowercase();
        let number = match names.iter().position(|name| *name == lower) {
            Some(at) => u8::try_from(at).ok()? + least.min(1) * u8::from(names.len() == 12),
            None => lower.parse().ok()?,
        };
        (least..=most).contains(&number).then_some(number)
    };
    let mut bits = 0_u64;
    for part in field.split(',') {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let (first, last) = if matches!(range, "*" | "?") {
            (least, most)
        } else if let Some((first, last)) = range.split_once('-') {
            (value(first)?, value(last)?)
        } else {
            let first = value(range)?;
            (first, if step.is_some() { most } else { first })
        };
        let step: usize = step.map_or(Some(1), |step| step.parse().ok()).filter(|step| *step > 0)?;
        if first > last {
            return None;
        }
        for value in (first..=last).step_by(step) {
            bits |= 1 << value;
        }
    }
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str) -> String {
        let after = after.parse().expect("a time");
        Schedule::parse(schedule)
            .and_then(|schedule| schedule.next(after, &TimeZone::UTC))
            .map_or_else(|| "never".to_owned(), |next| next.to_string())
    }

    #[test]
    fn next_times_follow_cron() {
        for (schedule, after, wanted) in [
            ("*/5 * * * *", "2026-06-01T08:01:00Z", "2026-06-01T08:05:00Z"),
            ("*/5 * * * *", "2026-06-01T08:05:00Z", "2026-06-01T08:10:00Z"),
            ("0 3 * * *", "2026-06-01T08:00:00Z", "2026-06-02T03:00:00Z"),
            ("30 8 1,15 * *", "2026-06-01T08:30:00Z", "2026-06-15T08:30:00Z"),
            ("0 0 * * mon", "2026-06-02T00:00:00Z", "2026-06-08T00:00:00Z"),
            ("0 0 13 * 5", "2026-06-01T00:00:00Z", "2026-06-05T00:00:00Z"),
            ("0 0 1 jan *", "2026-06-01T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("@hourly", "2026-06-01T08:00:01Z", "2026-06-01T09:00:00Z"),
            ("0 0 30 2 *", "2026-06-01T00:00:00Z", "never"),
            ("10-20/5 * * * *", "2026-06-01T08:15:00Z", "2026-06-01T08:20:00Z"),
            ("0 0 * * 7", "2026-06-01T00:00:00Z", "2026-06-07T00:00:00Z"),
        ] {
            assert_eq!(next(schedule, after), wanted, "{schedule}");
        }
    }

    #[test]
    fn the_latest_time_is_found_however_long_nobody_looked() {
        for (schedule, since, now, wanted, too_many) in [
            ("0 * * * *", "2026-06-01T08:00:00Z", "2026-06-01T08:59:59Z", "never", false),
            ("0 * * * *", "2026-06-01T08:00:00Z", "2026-06-01T09:30:00Z", "2026-06-01T09:00:00Z", false),
            ("0 * * * *", "2026-06-01T08:00:00Z", "2026-06-01T20:30:00Z", "2026-06-01T20:00:00Z", false),
            ("* * * * *", "2026-06-01T08:00:00Z", "2026-06-01T09:40:30Z", "2026-06-01T09:40:00Z", false),
            ("* * * * *", "2026-06-01T08:00:00Z", "2026-06-01T09:41:30Z", "2026-06-01T09:41:00Z", true),
            ("* * * * *", "0001-01-01T00:00:00Z", "2026-06-01T08:00:30Z", "2026-06-01T08:00:00Z", true),
            ("30 6-16/4 * * 1-5", "2026-06-05T14:00:00Z", "2026-06-08T12:00:00Z", "2026-06-08T10:30:00Z", false),
            ("0 0 29 2 *", "1999-01-01T00:00:00Z", "2026-06-01T00:00:00Z", "2024-02-29T00:00:00Z", false),
        ] {
            let at = |text: &str| text.parse::<Timestamp>().expect("a time");
            let found =
                Schedule::parse(schedule).and_then(|schedule| schedule.latest(at(since), at(now), &TimeZone::UTC));
            let text = found.as_ref().map_or_else(|| "never".to_owned(), |latest| latest.time.to_string());
            assert_eq!(
                (text.as_str(), found.is_some_and(|latest| latest.too_many)),
                (wanted, too_many),
                "{schedule} {since}"
            );
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for text in ["", "* * * *", "60 * * * *", "a * * * *", "5-1 * * * *", "*/0 * * * *"] {
            assert_eq!(Schedule::parse(text), None, "{text}");
        }
    }
}
