#!/bin/sh
# Prints the Python that the virtual environment is made with, or says in one line what this machine lacks.
# PYTHON, if set, is the only candidate.

fail() {
  echo "floorgent_ros: $*" >&2
  exit 1
}

[ "$(uname -s) $(uname -m)" = "Linux x86_64" ] ||
  fail "this is $(uname -s) $(uname -m), and the ROS 2 wheels are built for Linux x86_64: use a ROS 2 install here"
command -v cmake >/dev/null || fail "cmake is missing: install it (Debian, Ubuntu: apt install cmake)"
{ command -v c++ && command -v cc; } >/dev/null ||
  fail "a C/C++ compiler is missing: install one (Debian, Ubuntu: apt install build-essential)"

test_python='
import os, sys, sysconfig
if sys.version_info[:2] not in ((3, 11), (3, 12)):
    sys.exit("is Python %d.%d" % sys.version_info[:2])
try:
    import ensurepip, venv
except ImportError:
    sys.exit("has no venv (Debian, Ubuntu: apt install python3-venv)")
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    sys.exit("has no headers (Debian, Ubuntu: apt install python3-dev)")
'
for name in ${PYTHON:-python3 python3.12 python3.11}; do
  command -v "$name" >/dev/null || continue
  if reason=$("$name" -c "$test_python" 2>&1); then
    echo "$name"
    exit 0
  fi
  reasons="$reasons; $name $(echo "$reason" | head -n 1)"
done
reasons=${reasons#; }
fail "no usable Python 3.11 or 3.12 (${reasons:-none in PATH}): install one, or name it with make PYTHON=..."
