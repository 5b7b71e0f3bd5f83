"""Flags, help and exit codes."""

import pytest

COMMANDS = ["inspect", "plan", "predict", "verify", "bench", "devices"]


def test_help_has_examples_and_exit_codes(dpi):
    text = dpi("--help").ok().out
    for name in COMMANDS:
        assert name in text
    assert "Exit status" in text and "Examples" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_commands(dpi, command):
    assert "dpi " + command in dpi(command, "--help").ok().out


@pytest.mark.parametrize("args", [[], ["fly"], ["predict"], ["inspect"], ["plan", "x.h5", "--fold", "maybe"],
                                  ["plan", "x.h5", "--dot", "--json"], ["predict", "x.h5", "y.csv", "--batch", "0"],
                                  ["bench", "x.h5", "--batch", "a"], ["verify", "x.h5", "--unknown"]])
def test_wrong_usage(dpi, args):
    assert dpi(*args).code == 1


@pytest.mark.parametrize("command", ["inspect", "plan", "verify", "bench"])
def test_options(dpi, bundle, command):
    dpi(command, bundle, "--option", "colour=red").fails(1, "colour")
    dpi(command, bundle, "--option", "max_rows").fails(1, "key=value")
    dpi(command, bundle, "--option", "max_rows=0").fails(1, "max_rows")
    dpi(command, bundle, "--precision", "fp99").fails(1, "fp99")


def test_device_that_is_not_there(dpi, bundle):
    if any(d["backend"] == "cuda" and d["usable"] for d in dpi("devices", "--json").json()):
        pytest.skip("this machine has a GPU")
    dpi("verify", bundle, "--device", "cuda").fails(5, "cuda")
    dpi("bench", bundle, "--device", "cuda", "--seconds", "0.01").fails(5, "cuda")
