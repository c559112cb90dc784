// The learner's page beside the board: buttons that ask the class for something.
// @ts-check
"use strict";

(() => {
  /** @param {string} words */
  const say = (words) => {
    const said = document.getElementById("said");
    if (said) said.textContent = words;
  };

  /** Times stand in the viewer's zone. */
  const localise = () => {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const text = new Date(/** @type {HTMLTimeElement} */ (time).dateTime).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
      if (time.textContent !== text) time.textContent = text;
    }
  };
  /** How much of a practice is left, each second. */
  const count = () => {
    const timer = /** @type {HTMLElement | null} */ (document.querySelector("[data-ends]"));
    if (!timer) return;
    const left = Math.ceil((Date.parse(timer.dataset.ends ?? "") - Date.now()) / 1000);
    // From then on the page is one that is only looked at.
    if (left <= 0) return location.reload();
    const text = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")} left`;
    // What is written here is a change that leads here.
    if (timer.textContent !== text) timer.textContent = text;
    timer.classList.toggle("is-short", left < 120);
  };
  setInterval(count, 1000);
  count();
  const bar = document.querySelector("[data-part=class]");
  if (bar) new MutationObserver(() => (localise(), count())).observe(bar, { childList: true, subtree: true });
  localise();

  document.addEventListener("click", async (event) => {
    const target = /** @type {Element} */ (event.target);
    const button = /** @type {HTMLButtonElement | null} */ (target.closest("button"));
    if (!button) return;
    // The board's own script copies on the board's page.
    if (button.dataset.copy !== undefined && !document.querySelector("script[src='board.js']")) {
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "Copied";
        say("copied");
      } catch {
        say("this browser does not let the page copy");
        button.textContent = "Not allowed";
      }
      setTimeout(() => (button.textContent = "Copy"), 1500);
    }
    if (!button.dataset.post) return;
    if (button.dataset.ask && !confirm(button.dataset.ask)) return;
    button.disabled = true;
    const answer = await fetch(button.dataset.post, { method: "POST" });
    const words = answer.ok ? "done" : await answer.text();
    say(words);
    if (answer.ok && button.dataset.then) return location.assign(button.dataset.then);
    // What was refused is shown to all, beside the button.
    button.parentElement?.querySelector(".refused")?.remove();
    if (!answer.ok) button.after(Object.assign(document.createElement("span"), { className: "refused", textContent: words }));
    button.disabled = false;
  });
})();
