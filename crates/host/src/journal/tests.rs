//! Tests of the journal of a class: what was acknowledged is read again, and what is not what was written is refused.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::*;

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// The files of a journal of this many numbers.
fn written(numbers: u32) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (journal, entries) = Journal::open::<u32>(&path).unwrap();
    assert_eq!(entries, Vec::<u32>::new());
    for number in 0..numbers {
        block(journal.write(&number).on_disk()).unwrap();
    }
    (folder, path)
}

fn words<T>(outcome: Result<T>) -> String {
    outcome.err().map(|error| format!("{error:#}")).unwrap_or_default()
}

#[test]
fn what_was_written_is_read_again_and_half_a_line_is_cut_off() {
    let (_folder, path) = written(100);
    let whole = std::fs::read(&path).unwrap();
    for torn in ["7", "0123456789abcdef 7", "     "] {
        let text = [&whole[..], torn.as_bytes()].concat();
        std::fs::write(&path, &text).unwrap();
        let seen = look::<u32>(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), text, "who only looks changes nothing");
        let (journal, entries) = Journal::open::<u32>(&path).unwrap();
        assert_eq!((&seen, &entries), (&(0..100).collect(), &(0..100).collect()), "{torn:?}");
        assert_eq!(std::fs::read(&path).unwrap(), whole);
        drop(journal);
    }
}

#[test]
fn whatever_is_changed_missing_or_cut_off_is_refused_with_its_place() {
    let (_folder, path) = written(12);
    let whole = std::fs::read(&path).unwrap();
    let line_of = |at: usize| whole[..at].split(|byte| *byte == b'\n').count();
    for at in 0..whole.len() {
        for bit in [1, 0x20] {
            let mut text = whole.clone();
            text[at] ^= bit;
            std::fs::write(&path, &text).unwrap();
            let words = words(look::<u32>(&path));
            let place = words.split("line ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
            // A line whose end is gone is one with the next, or is missing.
            let places = [line_of(at), line_of(at) - 1];
            assert!(place.is_some_and(|place| places.contains(&place)), "byte {at}: {words}");
        }
    }
    for end in 0..whole.len() {
        std::fs::write(&path, &whole[..end]).unwrap();
        for words in [words(look::<u32>(&path)), words(Journal::open::<u32>(&path))] {
            assert!(words.contains("missing"), "{end} {words}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), &whole[..end], "nothing is cut off what is refused");
    }
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    for gone in 0..lines.len() {
        let kept: Vec<&[u8]> = lines.iter().enumerate().filter(|(at, _)| *at != gone).map(|(_, line)| *line).collect();
        std::fs::write(&path, kept.concat()).unwrap();
        assert!(words(look::<u32>(&path)).contains("missing"), "without line {gone}");
        let mut twice = lines.clone();
        twice.insert(gone, lines[gone]);
        std::fs::write(&path, twice.concat()).unwrap();
        assert!(words(look::<u32>(&path)).contains(&format!("line {}", gone + 2)), "line {gone} twice");
    }
}

#[test]
fn a_journal_of_the_version_before_goes_on_and_is_checked_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    std::fs::write(&path, "1\n2\n").unwrap();
    let (journal, entries) = Journal::open::<u32>(&path).unwrap();
    assert_eq!(entries, [1, 2]);
    block(journal.write(&3).on_disk()).unwrap();
    drop(journal);
    assert_eq!(look::<u32>(&path).unwrap(), [1, 2, 3]);
    let whole = std::fs::read_to_string(&path).unwrap();
    for (changed, line) in [
        (whole.replacen('1', "4", 1), "line 3"),
        (whole.replacen("2\n", "", 1), "line 2"),
        (format!("{whole}4\n"), "line 4"),
    ] {
        std::fs::write(&path, &changed).unwrap();
        let words = words(look::<u32>(&path));
        assert!(words.contains(line), "{changed} {words}");
    }
    let (_folder, path) = written(0);
    std::fs::write(&path, "1\nx\n2\n").unwrap();
    assert!(words(Journal::open::<u32>(&path)).contains("line 2 (byte 2)"));
}

/// A disk with so much room.
#[derive(Clone, Default)]
struct Small(Arc<Mutex<(Vec<u8>, usize)>>);

impl Small {
    fn room(&self, bytes: usize) {
        self.0.lock().unwrap().1 = bytes;
    }

    fn text(&self) -> Vec<u8> {
        self.0.lock().unwrap().0.clone()
    }
}

impl Disk for Small {
    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        let room = disk.1.saturating_sub(disk.0.len()).min(text.len());
        disk.0.extend_from_slice(&text[..room]);
        if room < text.len() { Err(io::Error::other("No space left on device")) } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.0.lock().unwrap().0.truncate(bytes as usize);
        Ok(())
    }

    fn mark(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.text())
    }
}

#[test]
fn a_disk_that_was_full_is_written_to_again_and_what_was_refused_is_nowhere() {
    for size in 0..38 {
        let disk = Small::default();
        let mut writer = Writer::new(disk.clone(), Chain::default());
        let mut acknowledged = Vec::new();
        let write = |writer: &mut Writer<Small>, numbers: std::ops::Range<u32>| {
            let mut told = Vec::new();
            let orders = numbers.map(|number| {
                let (written, outcome) = oneshot::channel();
                told.push((number, outcome));
                Order::Write(Line { text: number.to_string().into_bytes(), written })
            });
            let orders: Vec<Order> = orders.collect();
            writer.follow(orders.into_iter());
            told.into_iter().map(|(number, mut outcome)| (number, outcome.try_recv().unwrap())).collect::<Vec<_>>()
        };
        disk.room(10_000);
        acknowledged
            .extend(write(&mut writer, 0..3).into_iter().map(|(number, outcome)| outcome.map(|()| number).unwrap()));
        assert!(writer.recover().unwrap().is_none(), "nothing has failed");
        // Not enough for two lines.
        disk.room(disk.text().len() + size);
        assert!(write(&mut writer, 3..5).iter().all(|(_, outcome)| outcome.is_err()));
        assert!(writer.probe().is_err());
        disk.room(10_000);
        assert!(writer.probe().is_ok());
        // Those who heard nothing of it yet.
        let refused = write(&mut writer, 5..6);
        assert_eq!(refused[0].1, Err("No space left on device".to_owned()));
        let text = writer.recover().unwrap().unwrap();
        assert_eq!(read::<u32>(&text, None).unwrap().entries, acknowledged);
        assert!(write(&mut writer, 6..8).iter().all(|(_, outcome)| outcome.is_ok()));
        let text = disk.text();
        assert_eq!(read::<u32>(&text, Some(&Mark::of(&writer.chain))).unwrap().entries, [0, 1, 2, 6, 7]);
    }
}
