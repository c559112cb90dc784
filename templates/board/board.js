// The page of `klab board`: takes changes in as the server draws them, moves what moved, asks for details, goes back in time.
// @ts-check
"use strict";

/** @typedef {{ left: string, came: string, from: string | null, to: string | null }} Move */
/** @typedef {{ number: number, at: number, parts: Record<string, string>, gone: string[], moves: Move[] }} Changes */

(() => {
  const LONGEST_FLIGHT = 600;
  const MOST_FLIGHTS = 200;
  /** A page may be left open for a night. */
  const MOST_MOMENTS = 5000;
  /** Parts that hold others. */
  const CONTAINERS = ["pools", "table"];
  /** @type {<T extends HTMLElement>(id: string) => T} */
  const one = (id) => /** @type {any} */ (document.getElementById(id));
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const body = document.body;

  /** The number of the newest change, and of the one that is shown. */
  let newest = Number(body.dataset.number);
  let shown = newest;
  /** @type {{ number: number, at: number }[]} */
  let moments = [];
  let isLive = true;
  /** The step whose text is read in place of the open one. */
  let browsing = false;

  /** What every part was filled with. */
  const filled = new Map();

  const lost = "klab does not answer; the page tries again.";

  // ---- taking changes in

  /** @param {string} name @returns {HTMLElement | null} */
  const place = (name) => document.querySelector(`[data-part="${CSS.escape(name)}"]`);

  /** Fills a part that holds others: what was in them stays. @param {HTMLElement} element @param {string} html */
  const refill = (element, html) => {
    /** @type {Map<string, Node[]>} */
    const before = new Map();
    for (const inner of element.querySelectorAll("[data-part]")) {
      before.set(/** @type {HTMLElement} */ (inner).dataset.part ?? "", [...inner.childNodes]);
    }
    element.innerHTML = html;
    for (const inner of element.querySelectorAll("[data-part]")) {
      inner.append(...(before.get(/** @type {HTMLElement} */ (inner).dataset.part ?? "") ?? []));
    }
  };

  /** @param {Record<string, string>} parts */
  const fill = (parts) => {
    const kept = focused();
    const onward = inPart();
    const names = Object.keys(parts).sort((a, b) => Number(CONTAINERS.includes(b)) - Number(CONTAINERS.includes(a)));
    for (const name of names) {
      const html = parts[name];
      if (filled.get(name) === html) continue;
      if (name === "lesson" && browsing) continue;
      const element = place(name);
      if (!element) continue;
      filled.set(name, html);
      if (CONTAINERS.includes(name)) refill(element, html);
      else element.innerHTML = html;
    }
    for (const name of [...filled.keys()]) if (name.includes("/") && !place(name)) filled.delete(name);
    dress();
    if (kept) focusOn(kept);
    // Once the console has given the new lines their buttons.
    if (onward) queueMicrotask(onward);
  };

  /** What gives the focus back to the part that has it, once that was filled: to the same button, or to the heading of what came. */
  const inPart = () => {
    const before = document.activeElement;
    const name = /** @type {HTMLElement | null | undefined} */ (before?.closest("[data-part]"))?.dataset.part;
    if (!before || !name || before.closest(PIECES)) return null;
    return () => {
      const part = place(name);
      if (!part || before.isConnected || (document.activeElement && document.activeElement !== body)) return;
      const same = [...part.querySelectorAll("button, a, summary")].find((one) => one.isEqualNode(before));
      const to = /** @type {HTMLElement | null} */ (same ?? part.querySelector("h2"));
      if (!same) to?.setAttribute("tabindex", "-1");
      to?.focus({ preventScroll: true });
    };
  };

  /** Changes that are not shown yet. @type {Changes[]} */
  const held = [];
  let later = 0;

  /** @param {Changes} changes */
  const change = (changes) => {
    held.push(changes);
    takeIn();
  };

  const takeIn = () => {
    clearTimeout(later);
    // What is pressed stays until it is released: a click on a button that was replaced meanwhile reaches nothing.
    if (document.querySelector(":active")) later = setTimeout(takeIn, 50);
    else held.splice(0).forEach(show);
  };

  /** @param {Changes} changes */
  const show = (changes) => {
    const flights = still.matches || document.hidden ? [] : departures(changes.moves);
    fill(changes.parts);
    for (const flight of flights) arrive(flight);
    if (detailed) refreshDetails();
  };

  // ---- pods that move

  /** @returns {Map<string, SVGGElement>} */
  const pods = () => {
    const all = new Map();
    for (const pod of document.querySelectorAll("g.pod")) all.set(/** @type {SVGGElement} */ (pod).dataset.name, pod);
    return all;
  };

  /** @param {Move[]} moves */
  const departures = (moves) => {
    if (moves.length === 0) return [];
    const all = pods();
    return moves.slice(-MOST_FLIGHTS).flatMap((move) => {
      const pod = all.get(move.left);
      return pod ? [{ came: move.came, from: pod.getBoundingClientRect() }] : [];
    });
  };

  /** @param {{ came: string, from: DOMRect }} flight */
  const arrive = ({ came, from }) => {
    const pod = /** @type {SVGGElement | null} */ (document.querySelector(`g.pod[data-name="${CSS.escape(came)}"]`));
    if (!pod) return;
    const to = pod.getBoundingClientRect();
    const flyer = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    flyer.setAttribute("class", "flyer cell");
    flyer.setAttribute("width", String(to.width));
    flyer.setAttribute("height", String(to.height));
    flyer.setAttribute("aria-hidden", "true");
    const copy = /** @type {SVGGElement} */ (pod.cloneNode(true));
    for (const name of ["tabindex", "role", "data-name"]) copy.removeAttribute(name);
    flyer.append(copy);
    body.append(flyer);
    const at = (/** @type {DOMRect} */ rect) => `translate(${rect.left}px, ${rect.top}px)`;
    const timing = { duration: LONGEST_FLIGHT, easing: "ease-in-out" };
    pod.animate([{ opacity: 0 }, { opacity: 0, offset: 0.95 }, { opacity: 1 }], timing);
    flyer.animate([{ transform: at(from) }, { transform: at(to) }], timing).onfinish = () => flyer.remove();
  };

  // ---- keyboard and pointer

  const PIECES = "g.pod, g.node";
  /** What Tab leads to. */
  let current = "";

  /** @param {Element} piece */
  const key = (piece) => `${piece.classList[0]} ${/** @type {SVGGElement} */ (piece).dataset.name}`;

  /** Makes pods and nodes reachable: one by Tab, the others from it by arrow keys. */
  const dress = () => {
    let reached = false;
    const pieces = document.querySelectorAll(PIECES);
    for (const piece of pieces) {
      if (!piece.hasAttribute("role")) piece.setAttribute("role", "button");
      /** @type {boolean} */
      const isCurrent = !reached && key(piece) === current;
      reached ||= isCurrent;
      piece.setAttribute("tabindex", isCurrent ? "0" : "-1");
      piece.classList.toggle("chosen", key(piece) === detailed);
    }
    if (!reached) pieces[0]?.setAttribute("tabindex", "0");
  };

  const focused = () => {
    const piece = document.activeElement?.closest?.(PIECES);
    return piece ? key(piece) : "";
  };

  /** @param {string} wanted */
  const focusOn = (wanted) => {
    if (focused() === wanted) return;
    for (const piece of document.querySelectorAll(PIECES)) {
      if (key(piece) === wanted) return /** @type {SVGGElement} */ (piece).focus();
    }
    // What had the focus is gone: the picture keeps it.
    /** @type {SVGGElement | null} */ (document.querySelector(`${PIECES.replace(",", "[tabindex='0'],")}[tabindex='0']`))?.focus();
  };

  /** The piece that lies nearest in a direction. @param {Element} from @param {number} x @param {number} y */
  const neighbour = (from, x, y) => {
    const middle = (/** @type {Element} */ piece) => {
      const rect = piece.getBoundingClientRect();
      return [rect.left + rect.width / 2, rect.top + rect.height / 2];
    };
    const [left, top] = middle(from);
    let best = null;
    let least = Infinity;
    for (const piece of document.querySelectorAll(PIECES)) {
      if (piece === from) continue;
      const [to, down] = middle(piece);
      const along = (to - left) * x + (down - top) * y;
      const across = Math.abs((to - left) * y) + Math.abs((down - top) * x);
      if (along < 4) continue;
      const far = along + across * 3;
      if (far < least) [least, best] = [far, piece];
    }
    return best;
  };

  const ARROWS = /** @type {Record<string, number[]>} */ ({
    ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && detailed) return close();
    const piece = /** @type {Element} */ (event.target).closest?.(PIECES);
    if (!piece) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(key(piece), true);
    }
    const arrow = ARROWS[event.key];
    const next = arrow && neighbour(piece, arrow[0], arrow[1]);
    if (next) {
      event.preventDefault();
      current = key(next);
      piece.setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      /** @type {SVGGElement} */ (next).focus();
    }
  });

  document.addEventListener("click", (event) => {
    const target = /** @type {Element} */ (event.target);
    const piece = target.closest(PIECES);
    if (piece) {
      current = key(piece);
      return open(current, false);
    }
    const button = /** @type {HTMLButtonElement | null} */ (target.closest("button"));
    if (!button) return;
    if (button.dataset.copy !== undefined) copy(button);
    else if (button.dataset.close) close();
    else if (button.dataset.next) goOn(button);
    else if (button.dataset.step !== undefined) read(button.dataset.step);
  });

  // ---- details

  /** The piece whose details are open: `pod NAMESPACE/NAME`, `node NAME`. */
  let detailed = "";
  let asked = 0;

  /** @param {string} wanted @param {boolean} takeFocus */
  const open = async (wanted, takeFocus) => {
    detailed = wanted;
    dress();
    const details = one("details");
    const number = ++asked;
    const [kind, ...name] = wanted.split(" ");
    const html = await ask(`${kind}?name=${encodeURIComponent(name.join(" "))}&moment=${isLive ? 0 : shown}`);
    // Somebody has asked for something else since, or closed it.
    if (number !== asked) return;
    details.innerHTML = html;
    details.hidden = false;
    if (takeFocus) details.querySelector("h2")?.focus();
    else details.scrollIntoView({ block: "nearest" });
  };

  const close = () => {
    const was = detailed;
    detailed = "";
    asked += 1;
    one("details").hidden = true;
    dress();
    focusOn(was);
  };

  let refreshing = 0;
  const refreshDetails = () => {
    clearTimeout(refreshing);
    refreshing = setTimeout(() => detailed && !one("details").contains(document.activeElement) && open(detailed, false), 300);
  };

  // ---- the lesson

  /** @param {HTMLButtonElement} button */
  const copy = async (button) => {
    try {
      await navigator.clipboard.writeText(button.dataset.copy ?? "");
      say("copied");
      button.textContent = "Copied";
    } catch {
      say("this browser does not let the page copy");
      button.textContent = "Not allowed";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  };

  /** @param {string} step */
  const read = async (step) => {
    browsing = step !== "now";
    const html = await ask(`step?number=${encodeURIComponent(browsing ? step : "")}`);
    const lesson = one("lesson");
    lesson.innerHTML = html;
    filled.delete("lesson");
    lesson.querySelector("h2")?.setAttribute("tabindex", "-1");
    lesson.querySelector("h2")?.focus();
  };

  /** @param {HTMLButtonElement} button */
  const goOn = async (button) => {
    button.disabled = true;
    const words = await fetch("next", { method: "POST" }).then((answer) => (answer.ok ? "" : answer.text()), () => lost);
    say(words);
    // The step may have been drawn again since.
    const moves = document.querySelector("#lesson .moves");
    moves?.querySelector(".refused")?.remove();
    if (words) moves?.append(Object.assign(document.createElement("span"), { className: "refused", textContent: words }));
    button.disabled = false;
  };

  /** @param {string} words */
  const say = (words) => {
    one("said").textContent = words;
  };

  /** @param {string} path @returns {Promise<string>} */
  const ask = async (path) => {
    try {
      const answer = await fetch(path);
      if (answer.ok) return await answer.text();
      const text = document.createElement("p");
      text.textContent = await answer.text();
      return text.outerHTML;
    } catch {
      return "<p>klab does not answer any more; `klab board` starts it again.</p>";
    }
  };

  // ---- time

  const slider = /** @type {HTMLInputElement} */ (one("moment"));
  const when = one("when");
  const play = one("play");
  const now = /** @type {HTMLButtonElement} */ (one("now"));
  let playing = 0;

  /** @param {number} at */
  const clock = (at) => new Date(at).toLocaleTimeString();

  const drawTime = () => {
    const last = Math.max(0, moments.length - 1);
    slider.max = String(last);
    if (isLive) slider.value = String(last);
    const moment = moments[Number(slider.value)];
    const text = isLive || !moment ? "now" : `${clock(moment.at)}, ${Number(slider.value) + 1} of ${moments.length}`;
    when.textContent = text;
    slider.setAttribute("aria-valuetext", text);
    now.disabled = isLive;
    play.textContent = playing ? "Pause" : "Replay";
    play.setAttribute("aria-pressed", String(Boolean(playing)));
  };

  /** Shows a moment that is past. @param {number} index */
  const showMoment = async (index) => {
    const moment = moments[index];
    if (!moment) return;
    isLive = false;
    slider.value = String(index);
    drawTime();
    const answer = await fetch(`at?moment=${moment.number}`);
    if (!answer.ok || isLive || Number(slider.value) !== index) return;
    /** @type {Changes} */
    const changes = await answer.json();
    shown = changes.number;
    change(changes);
  };

  const backToNow = async () => {
    stop();
    isLive = true;
    drawTime();
    const answer = await fetch(`at?moment=${newest}`);
    if (!answer.ok) return;
    const changes = await answer.json();
    if (!isLive) return;
    shown = newest;
    changes.moves = [];
    change(changes);
  };

  const stop = () => {
    clearTimeout(playing);
    playing = 0;
  };

  /** Goes on to the next moment after as long as it took, by the speed; nobody waits longer than this. */
  const LONGEST_WAIT = 2000;
  const step = () => {
    const index = Number(slider.value);
    const here = moments[index];
    const next = moments[index + 1];
    if (!here || !next) {
      stop();
      return drawTime();
    }
    const wait = Math.min(LONGEST_WAIT, (next.at - here.at) / Number(/** @type {any} */ (one("speed")).value));
    playing = setTimeout(async () => {
      await showMoment(index + 1);
      if (playing) step();
    }, wait);
    drawTime();
  };

  slider.addEventListener("input", () => {
    stop();
    showMoment(Number(slider.value));
  });
  now.addEventListener("click", backToNow);
  play.addEventListener("click", async () => {
    if (playing) {
      stop();
      return drawTime();
    }
    if (isLive || Number(slider.value) >= moments.length - 1) await showMoment(0);
    step();
  });
  document.querySelector("form.time")?.addEventListener("submit", (event) => event.preventDefault());

  // ---- the wire

  /** @param {string} words */
  const fallSilent = (words) => {
    const silence = place("silence");
    if (silence && (!silence.textContent || silence.textContent === lost)) silence.textContent = words;
  };

  /** @param {number} since */
  const listen = (since) => {
    const source = new EventSource(`events?since=${since}`);
    source.addEventListener("change", (event) => {
      /** @type {Changes} */
      const changes = JSON.parse(event.data);
      const run = event.lastEventId.split("-")[0];
      // Another klab has taken over: what was numbered before means nothing.
      if (run !== body.dataset.run) return location.reload();
      if (changes.number !== newest) moments.push({ number: changes.number, at: changes.at });
      newest = changes.number;
      if (moments.length > MOST_MOMENTS) moments.shift();
      if (isLive) {
        shown = newest;
        change(changes);
      }
      drawTime();
    });
    source.addEventListener("ended", (event) => {
      source.close();
      fallSilent(event.data);
    });
    source.addEventListener("open", () => {
      const silence = place("silence");
      if (silence?.textContent === lost) silence.textContent = filled.get("silence") ?? "";
    });
    source.addEventListener("error", async () => {
      fallSilent(lost);
      if (source.readyState !== EventSource.CLOSED) return;
      // A browser that was answered something else, as by a proxy without its host, does not try again by itself. All is asked for:
      // the number says nothing to another run.
      const answer = await fetch("moments").catch(() => null);
      if (answer && [401, 403, 404].includes(answer.status)) fallSilent("This page is not known here any more: load it again.");
      else setTimeout(() => listen(0), 3000);
    });
  };
  listen(newest);

  const begin = async () => {
    const answer = await fetch("moments");
    if (answer.ok) moments = (await answer.json()).concat(moments.filter((moment) => moment.number > newest));
    drawTime();
  };

  dress();
  begin();
})();
