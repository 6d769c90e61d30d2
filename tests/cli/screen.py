"""screen.py COLUMNS ROWS SECONDS COMMAND...: runs a command on a terminal of that size, and prints what a person has before
her eyes in the end, with what has scrolled away. After SECONDS, if not 0, and not before the live table of devices is there,
she presses Ctrl-C. "wrapped: N" is how many lines the terminal had to break."""
import fcntl, os, pty, re, struct, sys, termios, time

columns, rows, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])


class Screen:
    def __init__(self):
        self.lines, self.row, self.column, self.wrapped, self.erased = [""], 0, 0, 0, []

    def put(self, character):
        if self.column >= columns:
            self.wrapped += 1
            self.line_feed()
            self.column = 0
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[:self.column] + character + line[self.column + 1:]
        self.column += 1

    def line_feed(self):
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append("")

    def code(self, count, letter):
        if letter == "A":  # not above what is on the screen
            self.row = max(self.row - int(count or 1), len(self.lines) - rows, 0)
        elif letter == "J":
            self.lines[self.row:] = [self.lines[self.row][:self.column]]
        elif letter == "K":
            self.lines[self.row] = self.lines[self.row][:self.column]
        elif letter != "m":
            sys.exit(f"the code {letter} is unknown")

    def show(self, text):
        for part in re.findall(r"\x1b\[(\d*)([A-Za-z])|(.)", text, flags=re.S):
            if part[1]:
                self.code(part[0], part[1])
            elif part[2] == "\r":
                self.column = 0
            elif part[2] == "\n":
                self.line_feed()
            else:
                self.put(part[2])


child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    settings = termios.tcgetattr(0)
    settings[3] |= termios.NOFLSH  # Ctrl-C would discard what this reader has not read yet; a person's terminal has read it
    termios.tcsetattr(0, termios.TCSANOW, settings)
    os.environ["TERM"] = "xterm"
    os.execvp(sys.argv[4], sys.argv[4:])
start, said, pressed = time.time(), b"", False
while True:
    try:
        more = os.read(terminal, 65536)
    except OSError:  # the other end is closed
        break
    if not more:
        break
    said += more
    if seconds and not pressed and time.time() > start + seconds and b"queue" in said:
        pressed = True
        os.write(terminal, b"\x03")
screen = Screen()
screen.show(said.decode(errors="replace"))
print("\n".join(line.rstrip() for line in screen.lines))
print(f"cursor: {screen.column}\nwrapped: {screen.wrapped}")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
