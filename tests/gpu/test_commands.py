#!/usr/bin/env python3
"""The commands of ctest's tests, for the pack: test_commands.py commands|programs BUILD TEST... prints {test: [program, filter...]} as JSON, or
the programs alone. Any device's entry will do: the device is the stages' to say."""

import json
import pathlib
import subprocess
import sys


def main():
    what, build, *names = sys.argv[1:]
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], stdout=subprocess.PIPE, check=True).stdout
    commands = {}
    for test in json.loads(listed)["tests"]:
        name = test["name"].split(".")[0]
        if name in names and "command" in test:
            program, *rest = test["command"]
            commands[name] = [pathlib.Path(program).name, *(word for word in rest if not word.startswith("--device="))]
    if missing := sorted(set(names) - set(commands)):
        sys.exit(f"{build} has no built test {', '.join(missing)}")
    print(json.dumps(commands, indent=1) if what == "commands" else " ".join(sorted({words[0] for words in commands.values()})))


if __name__ == "__main__":
    main()
