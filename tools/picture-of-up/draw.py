"""Draws the history of a terminal as an SVG that plays by itself: no script, nothing loaded, light and dark, still for who wants it still."""

from xml.sax.saxutils import escape

# Of a letter, in units of the picture.
WIDTH, HEIGHT = 8.4, 19.0
MARGIN, BAR = 16.0, 30.0
# How long the last picture is looked at before all begins again.
HOLD = 8.0

STYLE = """\
:root{color-scheme:light dark;--ground:#fff;--edge:#d0d7de;--bar:#f6f8fa;--text:#1f2328;--faint:#59636e;--green:#116329;--cyan:#1b7c83;\
--red:#a40e26;--yellow:#7d4e00}
@media(prefers-color-scheme:dark){:root{--ground:#0d1117;--edge:#3d444d;--bar:#151b23;--text:#f0f6fc;--faint:#9198a1;--green:#3fb950;\
--cyan:#39c5cf;--red:#ff7b72;--yellow:#d29922}}
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:var(--text);white-space:pre}
.b{font-weight:700}.green{fill:var(--green)}.cyan{fill:var(--cyan)}.red{fill:var(--red)}.brown{fill:var(--yellow)}.f{fill:var(--faint)}
.ground{fill:var(--ground);stroke:var(--edge)}.bar{fill:var(--bar)}.dot{fill:var(--edge)}
"""


def number(value):
    return f"{value:.3f}".rstrip("0").rstrip(".")


def spans(row, found):
    """The texts of a row. Each has the width of its letters, whatever font there is."""
    y = number(BAR + MARGIN + (row + 0.75) * HEIGHT)
    for column, text, colour, bold, faint in found:
        inner = text.lstrip()
        x = number(MARGIN + (column + len(text) - len(inner)) * WIDTH)
        inner = inner.rstrip()
        look = " ".join(
            name for name, has in (("b", bold), ("f", faint), (colour, colour not in ("default", "white"))) if has
        )
        look = f' class="{look}"' if look else ""
        yield (
            f'<text x="{x}" y="{y}" textLength="{number(len(inner) * WIDTH)}" lengthAdjust="spacingAndGlyphs"'
            f"{look}>{escape(inner)}</text>"
        )


def keyframes(name, since, until, whole):
    """Seen from a moment on, and until another one if there is one."""
    at = lambda moment: number(100 * moment / whole)
    steps = [f"0%{{opacity:{int(since == 0)}}}", f"{at(since)}%{{opacity:1}}"]
    if until is not None:
        steps.append(f"{at(until)}%{{opacity:0}}")
    steps.append(f"100%{{opacity:{int(until is None)}}}")
    return f"@keyframes {name}{{{''.join(steps)}}}"


def svg(rows, columns, lines, ended, title, description):
    whole = ended + HOLD
    moments, moving, drawn = {}, [], []
    for row, since, until, found in rows:
        if until is not None and until - since < 0.001:
            continue
        name = moments.setdefault((since, until), f"a{len(moments)}")
        # Who wants nothing to move sees what stands there at the end.
        kind = "r" if until is None else "r gone"
        drawn.append(f'<g class="{kind} {name}">{"".join(spans(row, found))}</g>')
    for (since, until), name in moments.items():
        moving.append(keyframes(name, since, until, whole))
        moving.append(f".{name}{{animation-name:{name}}}")
    width = number(2 * MARGIN + columns * WIDTH)
    height = number(BAR + 2 * MARGIN + lines * HEIGHT)
    motion = (
        ".gone{opacity:0}@media(prefers-reduced-motion:no-preference){"
        f".r{{animation:{number(whole)}s step-end infinite}}{''.join(moving)}}}"
    )
    dots = "".join(f'<circle class="dot" cx="{x}" cy="15" r="5"/>' for x in (18, 35, 52))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-labelledby="title description">\n<title id="title">{escape(title)}</title>\n'
        f'<desc id="description">{escape(description)}</desc>\n<style>\n{STYLE}{motion}\n</style>\n'
        f'<rect class="ground" x=".5" y=".5" width="{number(float(width) - 1)}" height="{number(float(height) - 1)}" rx="8"/>\n'
        f'<path class="bar" d="M1 29V9a8 8 0 0 1 8-8H{number(float(width) - 9)}a8 8 0 0 1 8 8V29z"/>{dots}\n'
        + "\n".join(drawn)
        + "\n</svg>\n"
    )
