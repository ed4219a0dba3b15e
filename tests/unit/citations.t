#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The check of style.t that what comments and documents cite is there (tests/lib/cited.awk) is one: in a small tree each
# kind of wrong citation is found.
# shellcheck source=tests/lib/tap.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/tap.sh"
# shellcheck source=tests/lib/cited.sh
. "$DP_SRCDIR/tests/lib/cited.sh"
dir=$(mktemp -d) || exit 1
trap 'case $BASHPID in $$) rm -rf "$dir" ;; esac' EXIT

mkdir -p "$dir/tree/common" "$dir/tree/doc" "$dir/tree/tests/e2e"
cd "$dir/tree" || exit 1
cat >common/good.c <<'X'
/* See good.h and doc/good.md, "A section"; doc/slurm.md F1. dp_good() is here, and common/good.h, "Rules". */
const char *text = "/* no comment: bad.c */";
void dp_good(void) {}
X
echo '/* Rules. Kept by tests/e2e/0100-layouts.t, or e2e/0100 for short. */' >common/good.h
printf '# Good\n\n## A section\n\n**Bold words** [there](slurm.md), [here](#a-section), [up](../common/good.c), [c](../common)\n' >doc/good.md
printf '**F1. A fact.** more\n' >doc/slurm.md
echo 'echo # tests' >tests/e2e/0100-layouts.t
is "$(cited)" "" "right citations are none of its business"

# wrong TEXT-OF-A-COMMENT WHAT-IS-SAID
wrong() {
    printf '/* A comment\n * of two lines. %s */\nint x;\n' "$1" >common/bad.c
    is "$(cited)" "common/bad.c:1: $2" "found: $2"
    rm common/bad.c
}
wrong 'See common/gone.h.' 'common/gone.h is no file of this tree'
wrong 'As gone.c does it.' 'gone.c is no file of this tree'
wrong '(other/good.c)' 'other/good.c is no file of this tree'
wrong 'tests/unit/common/test_gone looks.' 'tests/unit/common/test_gone is no test'
wrong 'e2e/0200 looks.' 'e2e/0200 is no test'
wrong '(doc/good.md, "No section")' 'doc/good.md has no section "No section"'
wrong 'common/good.h says ("Versions")' 'common/good.h has no section "Versions"'
wrong '(slurm.md F1, F13)' 'doc/slurm.md has no F13'
wrong 'dp_gone() does it.' 'there is no dp_gone()'
echo '[a](slurm.md/x) [b](good.md#nowhere), test_gone' >doc/bad.md
is "$(cited)" "doc/bad.md:1: test_gone is no test
doc/bad.md:1: a link to doc/slurm.md/x, which is not there
doc/bad.md:1: a link to doc/good.md#nowhere, which has no such section" "found: a test and links that are not there"
done_testing
