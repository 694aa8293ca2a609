"""`bertcli` for scripts: a process that lets the server of warm.py run its words, and ends as that command ends.

python -IS tests/client.py WORD...: folder, environment and streams are its own; the server is at the other end of the
socket that it has inherited as $WARM_SERVER. Only the standard library is imported: a script starts many of these.
"""

import json
import os
import signal
import socket
import sys


def main() -> None:
    server = socket.socket(fileno=int(os.environ["WARM_SERVER"]))
    variables = {name: value for name, value in os.environ.items() if not name.startswith("BASH_FUNC_")}
    request = json.dumps({"words": sys.argv[1:], "cwd": os.getcwd(), "variables": variables})
    inlet, outlet = os.pipe()
    socket.send_fds(server, [request.encode()], [0, 1, 2, outlet])
    os.close(outlet)
    with os.fdopen(inlet, "rb", buffering=0) as report:
        command = int(report.readline())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, lambda number, frame: os.kill(command, number))
        end(int(report.readline()))


def end(status: int) -> None:
    """End with a status, or if it is negative by that signal."""
    if status < 0:
        if status != -signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


main()
