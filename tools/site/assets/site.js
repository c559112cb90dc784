// The documentation's pages: theme, menu, copying, colours of code, search.
"use strict";

const themeButton = document.getElementById("theme");
themeButton.addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.klabTheme = root.dataset.theme; } catch (e) { /* the choice lasts for this page */ }
});

const menu = document.getElementById("menu");
menu.addEventListener("click", () => {
  menu.setAttribute("aria-expanded", document.getElementById("pages").classList.toggle("open"));
});

// mdBook's list of pages folds by a click; a keyboard does it, too.
for (const fold of document.querySelectorAll("#pages .chapter-fold-toggle")) {
  fold.tabIndex = 0;
  fold.setAttribute("role", "button");
  fold.setAttribute("aria-label", "Show or hide the pages below");
  fold.addEventListener("keydown", event => { if (event.key === "Enter") fold.click(); });
}

for (const block of document.querySelectorAll("pre > code")) {
  const language = /language-(\S+)/.exec(block.className);
  if (window.hljs && language && hljs.getLanguage(language[1])) hljs.highlightBlock(block);
  const button = document.createElement("button");
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    // Of a session only what is typed.
    const typed = block.textContent.split("\n").filter(line => line.startsWith("$ ")).map(line => line.slice(2));
    try {
      await navigator.clipboard.writeText(typed.length ? typed.join("\n") : block.textContent.trimEnd());
      button.textContent = "Copied";
    } catch (e) { button.textContent = "Select the text to copy it"; }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  block.parentElement.append(button);
}

document.querySelector("#pages a.active")?.scrollIntoView({ block: "nearest" });

const headings = [...document.querySelectorAll("main h2")];
if (headings.length > 2) {
  const here = document.createElement("nav");
  here.id = "here";
  here.setAttribute("aria-label", "On this page");
  here.append(...headings.map(heading => {
    const link = document.createElement("a");
    link.href = `#${heading.id}`;
    link.textContent = heading.textContent;
    return link;
  }));
  document.body.append(here);
}

const input = document.getElementById("search");
const list = document.getElementById("found");
const said = document.getElementById("said");

function load(name) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = path_to_root + name;
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  });
}

// The index is made when somebody first searches, from the words of all pages; a script also loads from a disk without a server.
let index;
function searchable() {
  index ??= Promise.all([load("minisearch.js"), load("words.js")]).then(() => {
    const made = new MiniSearch({
      fields: ["title", "path", "body"], storeFields: ["title", "path", "body", "url"],
      tokenize: text => text.toLowerCase().split(/[^\p{L}\p{N}_]+/u),
      // Long lists name every word; pages that explain it come before them.
      searchOptions: {
        boost: { title: 6, path: 2 }, prefix: term => term.length > 1, fuzzy: term => term.length > 4 ? 0.2 : 0, combineWith: "AND", boostDocument: (id, term, { url }) => /^look-up\/(events|conformance|typed)/.test(url) ? 0.3 : 1,
      },
    });
    made.addAll(window.klabWords.map(([url, path, title, body], id) => ({ id, url, path, title, body })));
    return made;
  });
  return index;
}

function excerpt(body, terms) {
  const lower = body.toLowerCase();
  const first = terms.map(term => lower.indexOf(term)).filter(at => at >= 0).sort((a, b) => a - b)[0] ?? 0;
  const begin = first > 60 ? body.indexOf(" ", first - 60) + 1 : 0;
  const text = body.slice(begin, begin + 200);
  const line = document.createElement("span");
  const words = terms.map(term => term.replace(/[^\p{L}\p{N}_]/gu, "\\$&"));
  if (!words.length) { line.textContent = text; return line; }
  for (const piece of text.split(new RegExp(`(${words.join("|")})`, "giu"))) {
    const marked = terms.includes(piece.toLowerCase());
    const node = document.createElement(marked ? "mark" : "span");
    node.style.display = "inline";
    node.textContent = piece;
    line.append(node);
  }
  return line;
}

input.addEventListener("input", async () => {
  const asked = input.value.trim();
  const results = asked ? (await searchable()).search(asked).slice(0, 12) : [];
  if (asked !== input.value.trim()) return;
  list.replaceChildren(...results.map(result => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = path_to_root + result.url;
    const title = document.createElement("strong");
    title.textContent = result.title;
    const path = document.createElement("span");
    path.textContent = result.path;
    link.append(title, path, excerpt(result.body, result.terms));
    item.append(link);
    return item;
  }));
  list.hidden = !results.length;
  said.textContent = asked ? `${results.length} results` : "";
});

document.addEventListener("keydown", event => {
  const typing = /^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName);
  if (event.key === "/" && !typing) { event.preventDefault(); input.focus(); }
  if (event.key === "Escape") { list.hidden = true; }
  const links = [...list.querySelectorAll("a")];
  const here = links.indexOf(document.activeElement);
  if (!list.hidden && (here >= 0 || document.activeElement === input)) {
    const next = event.key === "ArrowDown" ? links[here + 1] : event.key === "ArrowUp" ? links[here - 1] ?? input : null;
    if (next) { event.preventDefault(); next.focus(); }
    if (event.key === "Enter" && document.activeElement === input && links[0]) links[0].click();
  }
});
document.addEventListener("click", event => {
  if (!event.target.closest("search")) list.hidden = true;
});
