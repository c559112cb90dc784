//! The codes of a hosted class: made, taken from a file, said again.

use jiff::Timestamp;

use super::code::{Code, For, plain};
use super::register::Entry;
use super::state::Host;
use crate::error::Result;

impl Host {
    /// Makes this many codes, and gives their texts.
    ///
    /// # Errors
    /// When they could not be written down.
    pub async fn new_codes(
        &self,
        of: For,
        until: Option<Timestamp>,
        uses: Option<u32>,
        many: u32,
    ) -> Result<Vec<String>> {
        if many == 0 {
            return Ok(Vec::new());
        }
        let (written, texts) = {
            let mut register = self.register();
            let first = register.next_code();
            let made = (first..first.saturating_add(many)).map(|number| {
                let (mut code, text) = Code::new(&self.class, number, of, until, uses);
                // Seats for hand-outs are spread over all shards.
                code.home = self.shards().filter(|_| of == For::Seat).map(|shards| number % shards.many());
                (Entry::Code(code), text)
            });
            let (entries, texts) = made.unzip();
            (self.take(&mut register, entries), texts)
        };
        written.on_disk().await?;
        Ok(texts)
    }

    /// Lets people in by the code that is given, where one is.
    ///
    /// # Errors
    /// When it could not be written down.
    pub async fn take_code(&self, until: Option<Timestamp>, uses: Option<u32>) -> Result<()> {
        let Some(text) = &self.settings.code else { return Ok(()) };
        let hash = self.class.hash(&plain(text));
        let written = {
            let mut register = self.register();
            if register.knows(&hash) {
                return Ok(());
            }
            let code = Code { number: register.next_code(), of: For::Class, hash, home: None, until, uses };
            self.take(&mut register, vec![Entry::Code(code)])
        };
        written.on_disk().await
    }

    /// The text of the newest code of the class that is good.
    pub fn class_code(&self) -> Option<String> {
        if let Some(code) = &self.settings.code {
            return Some(code.clone());
        }
        let register = self.register();
        let now = Timestamp::now();
        let good = register
            .codes()
            .filter(|(code, used, revoked)| code.of == For::Class && code.spent(now, *used, *revoked).is_none());
        good.last().map(|(code, ..)| code.text(&self.class))
    }

    /// The hash of the code of the class, where that is given and not made.
    pub fn given_code(&self) -> Option<String> {
        self.settings.code.as_ref().map(|code| self.class.hash(&plain(code)))
    }
}
