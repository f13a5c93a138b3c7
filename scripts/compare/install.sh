#!/bin/sh
# install.sh NAME PYTHON STAMP UNWANTED [PIP_ARG...]: builds .venv-compare/NAME from NAME.txt beside
# this script, takes the packages UNWANTED (one word list) away again, and touches STAMP at the end.
set -eu
name=$1 python=$2 stamp=$3 unwanted=$4
shift 4
pins=$(dirname "$0")/$name.txt
folder=$(dirname "$stamp")
rm -f "$folder"/.stamp-*
test -x "$folder/bin/python" || "$python" -m venv "$folder"
echo "Installing $name into $folder (log in $folder/pip.log)."
pip() { "$folder/bin/python" -m pip --disable-pip-version-check "$@" >>"$folder/pip.log" 2>&1; }
if ! { pip install "$@" -r "$pins" && { test -z "$unwanted" || pip uninstall -y $unwanted; }; }; then
	tail -n 25 "$folder/pip.log" >&2
	exit 1
fi
touch "$stamp"
