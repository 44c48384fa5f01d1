#!/bin/sh
# Makes .venv with the given extras, on a machine that has only Python: setup_venv.sh EXTRAS
# Prefers the Python that the constraints were resolved and tested on.
set -eu
cd "$(dirname "$0")/.."
extras=$1

without_venv=
python=
for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3}; do
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
    if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
        python=$candidate
        break
    fi
    without_venv=$candidate
done

if [ -z "$python" ] && [ -n "$without_venv" ]; then
    echo "$without_venv has no venv module: install the package python3-venv" >&2
    echo "on Debian or Ubuntu: apt-get install python3-venv" >&2
    "$without_venv" scripts/system_check.py || true
    exit 1
elif [ -z "$python" ]; then
    echo "no Python 3.11 or newer found (looked for ${PYTHON:-python3.11, python3.12, python3.13, python3})" >&2
    echo "on Debian 12+ or Ubuntu 24.04+: apt-get install python3 python3-venv" >&2
    exit 1
fi

"$python" scripts/system_check.py
.venv/bin/python -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear .venv
echo "installing the project with its extras ($extras) into .venv: a few minutes the first time" >&2
.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$extras]"
case ",$extras," in
*,dev,*)
    # The other side of two tests. It asks for a NumPy before 2, and the parts that the tests use need none.
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps openpi-client==0.1.2
    ;;
esac
