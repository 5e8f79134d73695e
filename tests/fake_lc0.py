"""A scripted `lc0 selfplay`: plays a fixed mate from the initial position, and dies, hangs or lies on command.

The first lines of the file FAKE_LC0 names say how: ``die-after N``, ``hang-after N``, ``drop N``, ``line N TEXT``,
``child``. Without it every game of the book is reported.
"""

import os
import subprocess
import sys
import time

MATE = "f2f3 e7e5 g2g4 d8h4"


def main() -> None:
    options = dict(word[2:].partition("=")[::2] for word in sys.argv[2:] if word.startswith("--"))
    if "help" in options:  # it names no option, so that any may be given
        return
    script = os.environ.get("FAKE_LC0")
    lines = []
    if script:
        with open(script) as file:
            lines = file.read().splitlines()
    commands = dict(line.partition(" ")[::2] for line in lines)
    if "child" in commands:
        subprocess.Popen(["sleep", "600"])
    folder = os.path.join(os.environ["XDG_CACHE_HOME"], "lc0", "data-x y")
    os.makedirs(folder)
    print("id name a fake", flush=True)
    for game in range(int(options["games"])):
        if commands.get("die-after") == str(game):
            print("Unhandled exception: the backend fell over", file=sys.stderr, flush=True)
            os.abort()
        if commands.get("hang-after") == str(game):
            time.sleep(600)
        if commands.get("drop") == str(game):
            continue
        if commands.get("line", "").startswith(f"{game} "):
            print(commands["line"].partition(" ")[2], flush=True)
            continue
        chunk = os.path.join(folder, f"game_{game:06d}.gz")
        with open(chunk, "wb") as file:
            file.write(bytes.fromhex("1f8b08000000000000ff03000000000000000000"))  # no records
        facts = f"gameid {game} play_start_ply 0 player1 white result blackwon moves {MATE}"
        print(f"gameready trainingfile {chunk} {facts}", flush=True)
        print(f"tournamentstatus P1: +0 -{game + 1} =0", flush=True)
    print("tournamentstatus final P1: +0 -0 =0", flush=True)


main()
