//! Schedules of CronJobs: five fields, one of the `@` names, or an interval; what is wrong with one is said as upstream's
//! parser says it.

// upstream: vendor/github.com/robfig/cron/v3 parser.go, spec.go, constantdelay.go (v1.36)
// upstream: pkg/util/parsers/parsers.go ParseCronScheduleWithPanicRecovery (v1.36)

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use klab_cel::duration_nanos;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// What each field may be: least, most, names beginning with the least.
const FIELDS: [(u32, u32, &[&str]); 5] = [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, &MONTHS), (0, 6, &DAYS)];
const EVERY: &str = "@every ";
/// For how many years a next time is looked for; a schedule such as 30 February has none.
const HORIZON_YEARS: i16 = 5;
/// With more missed times than these the controller warns.
const TOO_MANY: i64 = 100;

/// A schedule.
#[derive(Debug, Clone)]
pub struct Schedule {
    times: Times,
    /// Where its times are meant, if it says so itself.
    zone: Option<TimeZone>,
}

#[derive(Debug, Clone)]
enum Times {
    /// Each of this many seconds after the one before.
    Every(SignedDuration),
    /// As bits of the values that minute, hour, day, month and weekday may have, and whether any day and any weekday
    /// will do: if one of them will, both must match, otherwise either may.
    At { bits: [u64; 5], any_day: bool },
}

/// The latest of the times that have passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latest {
    pub time: Timestamp,
    /// Whether more have passed than without a jump of the clock.
    pub too_many: bool,
}

/// There are times that a schedule names, and never come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub struct Never;

impl Schedule {
    /// Reads a schedule.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty spec string".to_owned());
        }
        let Some(zoned) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) else {
            return Ok(Self { times: Times::parse(text)?, zone: None });
        };
        let Some((name, rest)) = zoned.split_once(' ') else {
            return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
        };
        let zone = match name {
            "" | "UTC" | "Local" => TimeZone::UTC,
            name => {
                TimeZone::get(name).map_err(|_| format!("provided bad location {name}: unknown time zone {name}"))?
            }
        };
        Ok(Self { times: Times::parse(rest.trim())?, zone: Some(zone) })
    }

    /// The first time after `after`; in this zone, unless the schedule names another.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.times {
            Times::Every(interval) => {
                let second = Timestamp::from_second(after.as_second()).ok()?;
                Some(second.saturating_add(*interval).unwrap_or(Timestamp::MAX))
            }
            Times::At { bits, any_day } => next(bits, *any_day, after, self.zone.as_ref().unwrap_or(zone)),
        }
    }

    /// The last time up to `now` that follows `since`, and whether there were too many of them to be an oversight.
    ///
    /// Times are not counted one by one: they may be of two thousand years.
    // upstream: pkg/controller/cronjob/utils.go mostRecentScheduleTime (v1.36)
    pub fn latest(&self, since: Timestamp, now: Timestamp, zone: &TimeZone) -> Result<Option<Latest>, Never> {
        let first = self.next(since, zone).ok_or(Never)?;
        if now < first {
            return Ok(None);
        }
        let second = self.next(first, zone).ok_or(Never)?;
        if now < second {
            return Ok(Some(Latest { time: first, too_many: false }));
        }
        let interval = first.duration_until(second).as_secs();
        let missed = first.duration_until(now).as_secs().checked_div(interval).ok_or(Never)?.saturating_add(1);
        // One interval further back than it takes, for schedules whose times are not evenly spaced.
        let back = interval.saturating_mul(missed.saturating_sub(2));
        let mut latest = None;
        let mut from = first.saturating_add(SignedDuration::from_secs(back)).unwrap_or(Timestamp::MAX);
        while let Some(time) = self.next(from, zone).filter(|time| *time <= now) {
            (latest, from) = (Some(time), time);
        }
        Ok(latest.map(|time| Latest { time, too_many: missed > TOO_MANY }))
    }
}

impl Times {
    fn parse(text: &str) -> Result<Self, String> {
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text if text.starts_with(EVERY) => return every(text),
            text if text.starts_with('@') => return Err(format!("unrecognized descriptor: {text}")),
            text => text,
        };
        let fields: Vec<&str> = fields.split_whitespace().collect();
        if fields.len() != FIELDS.len() {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
        }
        let (mut all, mut stars) = ([0; 5], [false; 5]);
        for (at, (field, bounds)) in fields.iter().zip(FIELDS).enumerate() {
            for part in field.split(',').filter(|part| !part.is_empty()) {
                let (bits, is_star) = range(part, bounds)?;
                all[at] |= bits;
                stars[at] |= is_star;
            }
        }
        Ok(Self::At { bits: all, any_day: stars[2] || stars[4] })
    }
}

fn every(text: &str) -> Result<Times, String> {
    let interval = &text[EVERY.len()..];
    let Some(nanos) = duration_nanos(interval) else {
        let is_number = !interval.is_empty() && interval.bytes().all(|byte| byte.is_ascii_digit());
        let because = if is_number { "missing unit in duration" } else { "invalid duration" };
        return Err(format!("failed to parse duration {text}: time: {because} {interval:?}"));
    };
    Ok(Times::Every(SignedDuration::from_secs((nanos / 1_000_000_000).max(1))))
}

/// One range of a field: `*`, `a`, `a-b`, each with an optional `/step`. Gives its bits, and whether it is all there is.
fn range(text: &str, (least, most, names): (u32, u32, &[&str])) -> Result<(u64, bool), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let value = |text: &str| match names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        Some(at) => Ok(least + at as u32),
        None => number(text),
    };
    let is_star = matches!(ends[0], "*" | "?");
    let (first, mut last) = match ends.as_slice() {
        _ if is_star => (least, most),
        [one] => (value(one)?, value(one)?),
        [first, last] => (value(first)?, value(last)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if ends.len() == 1 {
                last = most;
            }
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if first < least {
        return Err(format!("beginning of range ({first}) below minimum ({least}): {text}"));
    }
    if last > most {
        return Err(format!("end of range ({last}) above maximum ({most}): {text}"));
    }
    if first > last {
        return Err(format!("beginning of range ({first}) beyond end of range ({last}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    let bits = (first..=last).step_by(step as usize).fold(0, |bits, value| bits | 1_u64 << value);
    Ok((bits, is_star && step == 1))
}

fn number(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"));
    }
    if digits.parse::<i64>().is_err() {
        return Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: value out of range"));
    }
    // Whatever is larger is above all maxima.
    Ok(digits.parse().unwrap_or(u32::MAX))
}

fn next(bits: &[u64; 5], any_day: bool, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let start = zone.to_datetime(after).checked_add(1.minute()).ok()?;
    let start = start.with().second(0).subsec_nanosecond(0).build().ok()?;
    let (mut date, mut from) = (start.date(), start.time());
    let last = date.year().saturating_add(HORIZON_YEARS);
    while date.year() <= last {
        if allows(bits, any_day, date) {
            for time in times(bits, from) {
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

fn has(bits: u64, value: i8) -> bool {
    bits & (1 << value) != 0
}

fn allows(bits: &[u64; 5], any_day: bool, date: Date) -> bool {
    let [_, _, days, months, weekdays] = *bits;
    let day = has(days, date.day());
    let weekday = has(weekdays, date.weekday().to_sunday_zero_offset());
    has(months, date.month()) && if any_day { day && weekday } else { day || weekday }
}

fn times(bits: &[u64; 5], from: Time) -> impl Iterator<Item = Time> {
    let [minutes, hours, ..] = *bits;
    (from.hour()..24).filter(move |hour| has(hours, *hour)).flat_map(move |hour| {
        let first = if hour == from.hour() { from.minute() } else { 0 };
        (first..60)
            .filter(move |minute| has(minutes, *minute))
            .filter_map(move |minute| Time::new(hour, minute, 0, 0).ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str) -> String {
        let after = after.parse().expect("a time");
        let schedule = Schedule::parse(schedule).expect(schedule);
        schedule.next(after, &TimeZone::UTC).map_or_else(|| "never".to_owned(), |next| next.to_string())
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
            // Any step but 1 is a choice: then either of the days will do.
            ("0 0 */10 * 1", "2026-06-01T00:00:00Z", "2026-06-08T00:00:00Z"),
            ("0 0 * * 1", "2026-06-01T00:00:00Z", "2026-06-08T00:00:00Z"),
            ("@every 1h30m", "2026-06-01T08:00:01.5Z", "2026-06-01T09:30:01Z"),
            ("@every 10ms", "2026-06-01T08:00:00Z", "2026-06-01T08:00:01Z"),
            ("TZ=Europe/Berlin 0 3 * * *", "2026-06-01T08:00:00Z", "2026-06-02T01:00:00Z"),
            ("CRON_TZ=UTC @daily", "2026-06-01T08:00:00Z", "2026-06-02T00:00:00Z"),
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
            let found = Schedule::parse(schedule).expect(schedule).latest(at(since), at(now), &TimeZone::UTC);
            let found = found.expect(schedule);
            let text = found.as_ref().map_or_else(|| "never".to_owned(), |latest| latest.time.to_string());
            assert_eq!(
                (text.as_str(), found.is_some_and(|latest| latest.too_many)),
                (wanted, too_many),
                "{schedule} {since}"
            );
        }
    }

    // upstream: pkg/controller/cronjob/utils_test.go TestMostRecentScheduleTime (v1.36)
    #[test]
    fn times_that_never_come_are_told() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        for schedule in ["59 23 31 2 *", "0 0 30 2 *", ", * * * *"] {
            let schedule = Schedule::parse(schedule).expect(schedule);
            let found = schedule.latest(at("2026-06-01T08:00:00Z"), at("2026-06-01T08:00:30Z"), &TimeZone::UTC);
            assert_eq!(found, Err(Never));
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        let atoi =
            |text: &str| format!("failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": invalid syntax");
        for (text, wanted) in [
            ("", "empty spec string".to_owned()),
            ("soon", "expected exactly 5 fields, found 1: [soon]".to_owned()),
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]".to_owned()),
            ("60 * * * *", "end of range (60) above maximum (59): 60".to_owned()),
            ("0 0 0 * *", "beginning of range (0) below minimum (1): 0".to_owned()),
            ("0 0 * * 7", "end of range (7) above maximum (6): 7".to_owned()),
            ("a * * * *", atoi("a")),
            ("-5 * * * *", atoi("")),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1".to_owned()),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3".to_owned()),
            ("*/0 * * * *", "step of range should be a positive number: */0".to_owned()),
            ("*/1/2 * * * *", "too many slashes: */1/2".to_owned()),
            ("@never", "unrecognized descriptor: @never".to_owned()),
            ("@every", "unrecognized descriptor: @every".to_owned()),
            ("@every soon", "failed to parse duration @every soon: time: invalid duration \"soon\"".to_owned()),
            ("TZ=Nowhere * * * * *", "provided bad location Nowhere: unknown time zone Nowhere".to_owned()),
            ("TZ=0", "invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned()),
        ] {
            assert_eq!(Schedule::parse(text).map(|_| ()), Err(wanted), "{text}");
        }
    }
}
