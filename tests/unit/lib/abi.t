#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# libdynpipe.so.1 as programs see it: what it exports, what it needs, and that its header stands alone. A function that goes breaks
# programs; one that comes is added here. Fields and numbers are test_dynpipe_abi's.
# shellcheck source=tests/lib/tap.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../../.." && pwd)}/tests/lib/tap.sh"
lib=$DP_BUILDDIR/lib/libdynpipe.so.1.0.0
[ -e "$lib" ] || skip_all "$lib is not built"
command -v readelf >/dev/null || skip_all "readelf is not installed"
tmp=$(mktemp -d) || bail "no temporary folder"
trap 'case $BASHPID in $$) rm -rf "$tmp" ;; esac' EXIT
header=$DP_SRCDIR/lib/dynpipe.h

functions='dynpipe_abi dynpipe_decide dynpipe_done dynpipe_event dynpipe_expect dynpipe_fd dynpipe_forget dynpipe_is_connected
dynpipe_join dynpipe_layout dynpipe_leads dynpipe_leave dynpipe_on_log dynpipe_pending dynpipe_poll dynpipe_prepare
dynpipe_proposal dynpipe_report dynpipe_state dynpipe_take_save dynpipe_time_left dynpipe_version dynpipe_wait dynpipe_why'
golden=$(tr -s ' ' '\n' <<<"$functions" | sed 's/$/@@LIBDYNPIPE_1/')
exported=$(LC_ALL=C readelf -W --dyn-syms "$lib" | awk '$5 ~ /GLOBAL|WEAK/ && $7 != "UND" && $4 != "OBJECT" { print $8 }' |
    grep -v '^LIBDYNPIPE_1$' | LC_ALL=C sort)
is "$exported" "$golden" "it exports these functions, and nothing else"
is "$(grep -oE '\bdynpipe_[a-z_]+\(' "$header" | tr -d '(' | LC_ALL=C sort -u)" "$(tr -s ' ' '\n' <<<"$functions")" \
    "the header declares these functions, and no other"
dynamic=$(LC_ALL=C readelf -dW "$lib")
like "$dynamic" 'SONAME.*\[libdynpipe\.so\.1\]' "its soname is libdynpipe.so.1"
needed=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic")
if [ -n "$(sed -n 's/^SANITIZER_CFLAGS *= *//p' "$DP_BUILDDIR/Makefile")" ]; then
    skip "it needs libc only" "a sanitizer has a library"
else
    is "$(grep -v '^ld-linux' <<<"$needed")" libc.so.6 "it needs libc only"
fi
is "$(readlink "$DP_BUILDDIR/lib/libdynpipe.so.1")" libdynpipe.so.1.0.0 "it is found by its soname"
# What would print, end the process, or start or catch something.
is "$(LC_ALL=C readelf -W --dyn-syms "$lib" | awk '$7 == "UND" { sub(/@.*/, "", $8); print $8 }' |
    grep -E '^(exit|_exit|abort|__assert_fail|printf|__printf_chk|puts|putchar|fputs|fwrite|perror|pthread_create|clone|fork|sigaction|signal)$')" \
    "" "it calls nothing that ends the process, prints, starts a thread or catches a signal"

# compiles NAME COMPILER...: the header alone, every warning an error.
compiles() {
    if ! command -v "$2" >/dev/null; then skip "$1" "$2 is not installed"; return; fi
    "${@:2}" -Wall -Wextra -pedantic -Werror -fsyntax-only "$tmp/alone.${3##*=}" >"$tmp/log" 2>&1
    is "$(cat "$tmp/log")" "" "$1"
}
echo "#include \"$header\"" >"$tmp/alone.c"
for std in c99 c11; do
    cp "$tmp/alone.c" "$tmp/alone.$std"
    compiles "the header compiles as $std" gcc "-std=$std" -x c
done
cp "$tmp/alone.c" "$tmp/alone.c++11"
compiles "the header compiles as C++" g++ "-std=c++11" -x c++
done_testing
