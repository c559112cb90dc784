//! Tests of who comes in, and to which seat.

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn code(number: u32, of: For, uses: Option<u32>) -> Entry {
    Entry::Code(Code { number, of, hash: format!("hash {number}"), home: None, until: None, uses })
}

fn class() -> Register {
    let mut register = Register { labs: vec!["one".to_owned(), "two".to_owned()], most: 3, ..Register::default() };
    register.take(code(1, For::Class, None));
    register.take(code(2, For::Seat, Some(1)));
    register
}

struct Try<'a> {
    name: &'a str,
    code: &'a str,
    pin: Option<&'a str>,
    lab: Option<&'a str>,
}

fn join(register: &mut Register, one: Try<'_>) -> Result<String, String> {
    let joining =
        Joining { name: one.name, code: one.code, pin: one.pin.map(str::to_owned), lab: one.lab, beyond: false };
    let joined = register.join(&joining, NOW, "made").map_err(|refusal| refusal.message)?;
    for entry in joined.entries {
        register.take(entry);
    }
    Ok(format!("{} {} {}", joined.person, joined.seat, joined.lab))
}

fn by<'a>(name: &'a str, code: &'a str, pin: Option<&'a str>) -> Try<'a> {
    Try { name, code, pin, lab: None }
}

#[test]
fn the_same_person_gets_the_same_seat() {
    let mut class = class();
    let class = &mut class;
    assert_eq!(join(class, by("Ann", "hash 1", Some("p"))), Ok("1 0-1 one".to_owned()));
    assert_eq!(join(class, by(" ann ", "hash 1", Some("p"))), Ok("1 0-1 one".to_owned()));
    let taken = join(class, by("ANN", "hash 1", None)).unwrap_err();
    assert!(taken.contains("PIN"), "{taken}");
    assert!(join(class, by("Ann", "hash 1", Some("q"))).unwrap_err().contains("PIN"));
    assert_eq!(
        join(class, Try { lab: Some("two"), ..by("Ann", "hash 1", Some("p")) }),
        Ok("1 0-2 two".to_owned()),
        "another lab, another seat"
    );
    assert_eq!(join(class, by("Ann", "hash 2", None)), Ok("2 0-3 one".to_owned()), "a seat code says who it is");
    assert_eq!(join(class, by("", "hash 2", None)), Ok("2 0-3 one".to_owned()));
    assert!(join(class, by("Bob", "hash 1", None)).unwrap_err().contains("3 seats"));
    assert!(join(class, by("Bob", "hash 9", None)).is_err());
    assert!(join(class, Try { lab: Some("no"), ..by("Bob", "hash 1", None) }).is_err());
}

#[test]
fn codes_that_are_spent_let_nobody_new_in() {
    let mut class = class();
    let class = &mut class;
    class.take(code(3, For::Class, Some(1)));
    assert!(join(class, by("Ann", "hash 3", Some("p"))).is_ok());
    assert!(join(class, by("Bob", "hash 3", None)).is_err());
    assert!(join(class, by("Ann", "hash 3", Some("p"))).is_ok(), "who has come may come back");
    assert!(join(class, by("Eve", "hash 2", None)).is_ok());
    class.take(Entry::Revoked { code: 2 });
    assert!(join(class, by("Eve", "hash 2", None)).is_err(), "a seat code that was lost opens nothing");
    class.take(Entry::Revoked { code: 1 });
    assert!(join(class, by("Zoe", "hash 1", None)).is_err());
}

#[test]
fn a_forgotten_pin_is_chosen_again() {
    let mut class = class();
    let class = &mut class;
    join(class, by("Ann", "hash 1", Some("p"))).unwrap();
    class.take(Entry::PinForgotten { person: 1 });
    assert!(join(class, by("Ann", "hash 1", None)).is_err());
    assert!(join(class, by("Ann", "hash 1", Some("q"))).is_ok());
    assert!(join(class, by("Ann", "hash 1", Some("p"))).is_err());
}

#[test]
fn a_class_has_its_time() {
    let mut class = class();
    let class = &mut class;
    let hour = SignedDuration::from_hours(1);
    join(class, by("Ann", "hash 1", Some("p"))).unwrap();
    let at = |hours: i64| NOW + SignedDuration::from_hours(hours);
    let times = Times { opens: Some(at(1)), closes: Some(at(2)), keep: hour, decided: None };
    for (moment, phase, next) in [
        (at(0), Phase::Ahead, Some(at(1))),
        (at(1), Phase::Open, Some(at(2))),
        (at(2), Phase::Closed, Some(at(3))),
        (at(3), Phase::Over, None),
    ] {
        assert_eq!((times.phase(moment), times.next_change(moment)), (phase, next), "{moment}");
    }
    class.take(Entry::Times(times));
    assert!(join(class, by("Bob", "hash 1", None)).is_err());
    assert!(join(class, by("Ann", "hash 1", Some("p"))).is_ok(), "who has come sees the seat again");
    class.take(Entry::Over { at: NOW });
    assert_eq!((class.phase(NOW), class.seats().count()), (Phase::Over, 0));
}

#[test]
fn names_are_kept_as_they_can_be_read() {
    for (typed, kept) in [
        (" Ann  B.\t", "Ann B."),
        ("\u{202e}nnA", "nnA"),
        ("a\u{0}b\nc", "ab c"),
        ("\u{200b}", ""),
        ("Zoë 🙂", "Zoë 🙂"),
    ] {
        assert_eq!(tidy(typed), kept, "{typed:?}");
    }
    assert_eq!(tidy(&"x".repeat(500)).len(), 60);
}

#[test]
fn entries_come_back_from_the_journal() {
    let times = Times { opens: None, closes: Some(NOW), keep: SignedDuration::from_hours(1), decided: Some(NOW) };
    for entry in [
        code(1, For::Seat, Some(1)),
        Entry::Revoked { code: 1 },
        Entry::Seat(Seat { seat: SeatId { shard: 1, number: 2 }, person: 3, lab: "a".to_owned(), at: NOW }),
        Entry::Times(times),
        Entry::Hint { seat: None, text: "look".to_owned(), at: NOW },
    ] {
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry, "{text}");
    }
}

fn sign_in(register: &mut Register, one: &Identified<'_>) -> Result<String, String> {
    let joined = register.join_identified(one, NOW).map_err(|refusal| refusal.message)?;
    for entry in joined.entries {
        register.take(entry);
    }
    Ok(format!("{} {} {}", joined.person, joined.seat, joined.lab))
}

#[test]
fn who_signs_in_is_known_by_that_and_not_by_a_name() {
    let mut class = class();
    let class = &mut class;
    let one = |identity| Identified { identity, name: "Ann", lab: None, code: None, needs_code: false };
    assert_eq!(sign_in(class, &one("i")), Ok("1 0-1 one".to_owned()));
    assert_eq!(sign_in(class, &Identified { name: "Anna", ..one("i") }), Ok("1 0-1 one".to_owned()));
    assert_eq!(sign_in(class, &one("j")), Ok("2 0-2 one".to_owned()), "of one name are many");
    assert!(class.knows_identity("i") && !class.knows_identity("k"));
    // A name and a PIN open no seat of somebody who has signed in.
    assert_eq!(join(class, by("Ann", "hash 1", Some("p"))), Ok("3 0-3 one".to_owned()));
    assert_eq!(sign_in(class, &one("i")), Ok("1 0-1 one".to_owned()));
    assert!(sign_in(class, &one("k")).unwrap_err().contains("3 seats"));
    assert!(sign_in(class, &Identified { lab: Some("two"), ..one("i") }).unwrap_err().contains("3 seats"));
    assert!(sign_in(class, &Identified { lab: Some("no"), ..one("k") }).unwrap_err().contains("no such lab"));
}

#[test]
fn where_the_code_is_needed_it_is_the_one_of_the_class_and_good() {
    let mut class = class();
    let class = &mut class;
    class.take(code(3, For::Class, Some(1)));
    let one = |identity, code| Identified { identity, name: "", lab: None, code, needs_code: true };
    assert!(sign_in(class, &one("i", None)).unwrap_err().contains("code"));
    assert_eq!(class.good_code("hash 3", NOW), Ok(3));
    assert!(class.good_code("hash 2", NOW).unwrap_err().is_guess, "one for a seat is for its owner");
    assert!(class.good_code("hash 9", NOW).unwrap_err().is_guess);
    assert_eq!(sign_in(class, &one("i", Some(3))), Ok("1 0-1 one".to_owned()));
    assert!(!class.person(1).unwrap().name.is_empty());
    assert!(sign_in(class, &one("j", Some(3))).is_err(), "it let one in");
    assert_eq!(sign_in(class, &one("i", None)), Ok("1 0-1 one".to_owned()), "who was here needs none");
    class.take(Entry::Revoked { code: 1 });
    assert!(!class.good_code("hash 1", NOW).unwrap_err().is_guess);
    assert!(sign_in(class, &one("j", Some(1))).is_err());
    // A class that is closed keeps what there is.
    class.take(Entry::Times(Times { closes: Some(NOW), keep: SignedDuration::from_hours(1), ..Times::default() }));
    assert_eq!(sign_in(class, &one("i", None)), Ok("1 0-1 one".to_owned()));
    assert!(sign_in(class, &Identified { needs_code: false, ..one("k", None) }).unwrap_err().contains("closed"));
    assert_eq!(class.join_known(1, None, NOW).unwrap().seat.to_string(), "0-1");
}

#[test]
fn each_learner_of_a_practice_has_the_same_time_from_when_they_come() {
    let mut class = Register { minutes: Some(20), ..class() };
    let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
    join(&mut class, by("Ann", "hash 1", Some("p"))).unwrap();
    class.take(Entry::Person(Person {
        number: 2,
        name: "Bob".to_owned(),
        pin: None,
        identity: None,
        code: 1,
        at: at(5),
    }));
    assert_eq!((class.ends(1), class.ends(2), class.ends(3)), (Some(at(20)), Some(at(25)), None));
    let late =
        |class: &Register, person, minute| class.refuse_late(person, at(minute)).map_err(|refusal| refusal.message);
    assert_eq!((late(&class, 1, 19), late(&class, 2, 24)), (Ok(()), Ok(())));
    assert!(late(&class, 1, 20).unwrap_err().contains("your time is over"));
    // Another task is another seat: none is given after the time, and one that is there is found.
    let (seat, entries) = class.seat_in(1, "two", at(19)).unwrap();
    assert_eq!((seat.number, entries.len()), (2, 1));
    for entry in entries {
        class.take(entry);
    }
    assert_eq!(class.seat_in(1, "two", at(30)).unwrap(), (seat, Vec::new()));
    assert!(class.seat_in(2, "two", at(30)).unwrap_err().message.contains("your time is over"));
    assert!(class.seat_in(2, "none", at(6)).is_err());
    // A closed class is closed, whatever time is left.
    class.take(Entry::Times(Times { closes: Some(at(10)), ..Times::default() }));
    assert!(late(&class, 2, 11).unwrap_err().contains("the class is closed"));
}
