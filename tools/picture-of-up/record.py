"""Runs a command in a terminal of its own and says what stood in each of its rows, from when to when."""

import fcntl
import os
import pty
import select
import struct
import termios
import time

import pyte

# A command that shows nothing new for so long hangs.
PATIENCE = 60


def cells(screen, row):
    """A row as spans of equal look: (column, text, foreground, bold, faint)."""
    spans = []
    for column in range(screen.columns):
        cell = screen.buffer[row][column]
        look = (cell.fg, cell.bold, cell.italics)
        if spans and spans[-1][2] == look:
            spans[-1][1] += cell.data
        else:
            spans.append([column, cell.data, look])
    # Blanks at the end are no text.
    while spans and not spans[-1][1].strip():
        spans.pop()
    if spans:
        spans[-1][1] = spans[-1][1].rstrip()
    return tuple((column, text, *look) for column, text, look in spans if text.strip())


class Terminal:
    """A terminal, and the history of its rows: each of (row, from, to or None, spans)."""

    def __init__(self, columns, rows):
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.shown = [(0.0, ())] * rows
        self.history = []

    def write(self, data, now):
        # pyte knows no faint letters; klab writes no italic ones, which stand in for them.
        self.stream.feed(data.replace(b"\x1b[2m", b"\x1b[3m"))
        for row, (since, before) in enumerate(self.shown):
            spans = cells(self.screen, row)
            if spans != before:
                if before:
                    self.history.append((row, since, now, before))
                self.shown[row] = (now, spans)

    def rows(self):
        """All that was shown, in the order of time; what is still there has no end."""
        last = [(row, since, None, spans) for row, (since, spans) in enumerate(self.shown) if spans]
        return sorted(self.history + last, key=lambda shown: (shown[1], shown[0]))

    def text(self):
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()


def type_command(terminal, command, start, each):
    """A prompt, and the command after it as somebody types it; when that is done."""
    terminal.write(b"\x1b[1;32m$\x1b[0m ", 0.0)
    now = start
    for letter in command:
        terminal.write(letter.encode(), now)
        now += each
    now += 3 * each
    terminal.write(b"\r\n", now)
    return now


def run(terminal, program, environment, start):
    """Runs a program; what it shows is noted at the time it was shown, counted from `start`. When it was done, and its exit code."""
    size = struct.pack("HHHH", terminal.screen.lines, terminal.screen.columns, 0, 0)
    child, master = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, size)
        os.execve(program[0], program, environment)
    began = time.monotonic()
    while True:
        readable, _, _ = select.select([master], [], [], PATIENCE)
        if not readable:
            os.kill(child, 9)
            raise SystemExit(f"{program[0]} showed nothing for {PATIENCE} seconds")
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        if not data:
            break
        terminal.write(data, start + time.monotonic() - began)
    _, status = os.waitpid(child, 0)
    return start + time.monotonic() - began, os.waitstatus_to_exitcode(status)
