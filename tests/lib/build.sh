# SPDX-License-Identifier: BSD-3-Clause
# What ./check and ./demo share; each sets here to its own folder and sources this file first:
#
#   leave_odd_folder NAME "$@"   starts the script NAME again under a name that make can work with
#   need_bootstrap               true when ./configure has to be made
#   configure_in DIR ARGS...     configures a build, unless it is configured so already
#   lock_build                   waits until no other ./check or ./demo builds in this clone (fd 8)
#
# On being sourced it also makes texts, numbers and TMPDIR the same everywhere, and forgets a Slurm job
# around us.
# shellcheck shell=bash disable=SC2154 # here is the caller's

# A comma in a number (also in $EPOCHREALTIME), or a message in another language, misleads what reads it.
LC_ALL=C.UTF-8
export LC_ALL
for v in "${!SLURM_@}" "${!SBATCH_@}" "${!SALLOC_@}" "${!SQUEUE_@}" "${!DYNPIPE_@}"; do unset "$v"; done

# Unix sockets below TMPDIR have 107 bytes for their names, and Slurm's files know no quoting.
case ${TMPDIR:=/tmp} in
    [!/]* | *[!A-Za-z0-9_./-]*) TMPDIR=/tmp ;;
esac
{ [ ${#TMPDIR} -le 40 ] && [ -d "$TMPDIR" ] && [ -w "$TMPDIR" ]; } || TMPDIR=/tmp
export TMPDIR

# automake refuses a folder with spaces and Slurm's files cannot name one: go there through a link.
leave_odd_folder() {
    local name=$1 link=${XDG_CACHE_HOME:-${HOME:-/nowhere}/.cache}/dynpipe
    shift
    case $here in *[!A-Za-z0-9_./@+~-]*) ;; *) return 0 ;; esac
    link=$link/$(printf %s "$here" | cksum | cut -d' ' -f1)
    case $link in
        *[!A-Za-z0-9_./@+~-]*) echo "$name: make cannot work in '$here'; use a folder without spaces" >&2; exit 1 ;;
    esac
    mkdir -p "${link%/*}" && ln -sfn "$here" "$link" || exit 1
    exec "$link/$name" "$@"
}

# Makefile.in is made last: an interrupted ./bootstrap does not count.
need_bootstrap() { [ ! -f "$here/Makefile.in" ] || [ "$here/configure.ac" -nt "$here/configure" ]; }

# A build that ./demo configured has no unit tests where cmocka was missing then.
configure_in() {
    local dir=$1 how
    shift
    how="$here ${*:-} cmocka=$(pkg-config --modversion cmocka 2>/dev/null)"
    mkdir -p "$dir" && cd "$dir" || return 1
    [ -f Makefile ] && [ "$(cat .configured 2>/dev/null)" = "$how" ] && return 0
    "$here/configure" --quiet "$@" && echo "$how" >.configured
}

# Held until the shell that calls it ends.
lock_build() {
    mkdir -p "$here/build" || return 1
    exec 8>"$here/build/.lock" || return 1
    flock 8
}
