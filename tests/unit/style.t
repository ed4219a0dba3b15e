#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What a reviewer should not have to look for: calls that are banned, files without an introduction,
# tabs, long lines, sources without a licence, notes to oneself, and scripts that shellcheck complains about.
: "${DP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
# shellcheck source=tests/lib/tap.sh
. "$DP_SRCDIR/tests/lib/tap.sh"
# shellcheck source=tests/lib/cited.sh
. "$DP_SRCDIR/tests/lib/cited.sh"
cd "$DP_SRCDIR" || exit 1
folders='cli common daemon doc kernels lib policies spank_plugin tests worker'
# shellcheck disable=SC2086 # several folders
sources=$(find $folders -name '*.[ch]' -o -name '*.cu' | LC_ALL=C sort)
[ -n "$sources" ] || bail "no sources under $DP_SRCDIR"
MAX_COLUMNS=140

# none NAME TEXT: TEXT lists the offences.
none() { is "$(printf '%s\n' "$2" | head -n 20)" "" "$1"; }

# Lines without comments and strings, as FILE:LINE:CODE.
code() {
    # shellcheck disable=SC2086
    awk 'FNR == 1 { in_comment = 0 }
        {
            line = $0
            gsub(/\\./, "", line)
            gsub(/"[^"]*"/, "\"\"", line)
            if (in_comment) {
                if (!sub(/^.*\*\//, "", line)) next
                in_comment = 0
            }
            gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", line)
            sub(/\/\/.*/, "", line)
            if (sub(/\/\*.*/, "", line)) in_comment = 1
            print FILENAME ":" FNR ":" line
        }' $sources
}
code=$(code) || bail "awk failed"

calls='strcpy strcat strncat sprintf vsprintf gets atoi atol atof strtok system popen mktemp tmpnam alloca'
banned=$(grep -E "(${calls// /|})[[:space:]]*\(" <<<"$code") # few lines: all of them are read once, not once a call
for call in $calls; do
    none "no $call()" "$(grep -E "[^[:alnum:]_>.]${call}[[:space:]]*\(" <<<"$banned")"
done
# Not libraries: main.c, the benchmarks, what a worker shows on the terminal, and the plugin inside of
# srun, where Slurm has no other way to refuse an option.
none "libraries do not exit, abort or print" "$(grep -E '^(common|policies|kernels|daemon|lib|worker|spank_plugin)/' <<<"$code" |
    grep -vE '^[^:]*/(main|bench)[./]' | grep -vE '^(worker/train/log/steplog|spank_plugin/spank_dynpipe)\.c:' |
    grep -E '[^[:alnum:]_](exit|abort|printf|puts|perror)[[:space:]]*\(' )"
# What differs between Slurm's releases stands in one file; the plugin sees SPANK beside it.
# The table in doc/design.md says which folder may include which; one that has no row goes by its parent's.
none "includes go the way that doc/design.md says" "$(
    # shellcheck disable=SC2046
    awk -F' *[|] *' '
        function row_of(path) { # the folder with a row that this one is, or lies in
            while (path != "" && !(path in may)) if (!sub("/[^/]*$", "", path)) path = ""
            return path
        }
        NR == FNR {
            if ($2 ~ /^[a-z_\/]+\/$/ && NF > 4) { folder = substr($2, 1, length($2) - 1); may[folder] = ", " $4 ","; rows++ }
            next
        }
        FNR == 1 { own = FILENAME; sub("/[^/]*$", "", own); own = row_of(own) }
        FNR == 1 && own == "" { print "doc/design.md: its table has no row for " FILENAME }
        own == "" || !match($0, /^#include "[a-z_0-9]+\/[^"]*"/) { next }
        {
            split($0, part, "\""); it = part[2]; sub("/[^/]*$", "", it); it = row_of(it)
            if (it != own && !index(may[own], ", " it ",")) print FILENAME ": " part[2]
        }
        END { if (rows < 10) print "doc/design.md: its table is not found" }' doc/design.md $(grep -vE '^(tests|doc|etc)/' <<<"$sources") || echo "awk failed"
)"
# Nodes have the daemon and the plugin, trainers the library. None of them needs what trains, or a language that may be missing there.
none "daemon, plugin and library can do without worker, Python and PyTorch" "$(
    awk -F' *[|] *' '
        $2 ~ /^[a-z_\/]+\/$/ && NF > 4 { may[substr($2, 1, length($2) - 1)] = $4 }
        function reach(from, by,  part, n, i) {
            if (from in seen) return
            seen[from] = 1
            if (from ~ /^(worker|kernels|cli)(\/|$)/) { print by " may include " from; return }
            n = split(may[from], part, ", ")
            for (i = 1; i <= n; i++) reach(part[i], from)
        }
        END {
            for (from in may) if (from ~ /^(daemon|lib|spank_plugin)(\/|$)/) { begun++; reach(from, from) }
            if (begun < 10) print "doc/design.md: its table is not found"
        }' doc/design.md
    # shellcheck disable=SC2086
    grep -niE '#[[:space:]]*include[[:space:]]*[<"]([^">]*/)?(python[0-9.]*/|Python\.h|torch/|pybind11/)' $sources
    grep -niE '(python|torch)' <<<"$(grep -E '^(common|daemon|lib|spank_plugin)/' <<<"$code")"
)"
# A command in the background that is killed before bash has made it one is a bash yet: it runs its script's trap, which would remove the
# script's files and end its servers. (bash 5.2: five times out of six where kill follows at once.)
none "what a script does at its end is done by no other process" "$(
    grep -rnIE '^ *trap [^-].* EXIT$' check demo tests worker policies kernels daemon cli packaging etc | grep -vF 'case $BASHPID in $$)'
)"
# A README.md in each folder with sources says in one line a file what it is for: of all files there, and of no other.
none "README.md of a folder names its files" "$(
    # shellcheck disable=SC2086
    for d in $(printf '%s\n' $sources | grep -vE '^(tests|doc)/' | sed 's#/[^/]*$##' | LC_ALL=C sort -u); do
        [ -f "$d/README.md" ] || { echo "$d/README.md is missing"; continue; }
        (cd "$d" && shopt -s nullglob && echo *.[ch] *.cu *.inc | tr ' ' '\n' | awk -v readme="$d/README.md" '
            FILENAME == "-" { if ($0 != "") there[$0] = 1; next }
            !/^\| [^ |]+ \|/ { next }
            { name = $2 }
            name == "file" { next }
            { n = sub(/\.\[ch\]$/, ".c", name); names[name] = 1; if (n) { sub(/c$/, "h", name); names[name] = 1 } }
            END {
                for (name in names) if (!(name in there)) print name
                for (name in there) if (!(name in names)) print readme " does not name " name
            }' - README.md | LC_ALL=C sort | while read -r n more; do
                if [ -n "$more" ]; then echo "$n $more"; elif [ ! -e "$n" ]; then echo "$d/README.md: there is no $n"; fi
            done)
    done
)"
# The campaign's odd_answers.c stands between that file and the library.
none "only common/slurm/libslurm.c uses libslurm" "$(
    # shellcheck disable=SC2086
    grep -nE '#[[:space:]]*include[[:space:]]*[<"]slurm/' $sources | grep -vE '^(common/slurm/libslurm\.c|spank_plugin/plugin\.h|tests/campaign\.d/odd_answers\.c):'
    grep -E '(^|[^[:alnum:]_])slurm_[a-z0-9_]+[[:space:]]*\(' <<<"$code" |
        grep -vE '^(common/slurm/libslurm\.c|tests/[^:]*):|^spank_plugin/[^:]*:[0-9]*:.*slurm_(spank_[a-z_]+|error|info|debug)[[:space:]]*\('
)"
# Names that begin with dp_ are everybody's, the others their file's.
none "no struct and function share a name" "$(awk -F: '
    function key(name) { return name ~ /^dp_/ ? name : $1 SUBSEP name }
    {
        line = $0; sub(/^[^:]*:[^:]*:/, "", line)
        if (match(line, /(struct|enum|union) [a-z_0-9]+ *\{/)) {
            name = substr(line, RSTART, RLENGTH); sub(/^[a-z]+ /, "", name); sub(/ *\{/, "", name); tag[key(name)] = name
        }
        if (line ~ /^[a-z]/ && match(line, /[a-z_0-9]+\(/)) {
            name = substr(line, RSTART, RLENGTH - 1); made[key(name)] = $1 ": " name
        }
    }
    END { for (k in tag) if (k in made) print made[k] }' <<<"$code" | LC_ALL=C sort)"
# shellcheck disable=SC2086
none "every file begins with a comment" "$(awk '
    FNR == 1 { is_told = 0 }
    is_told || /^$/ || /SPDX-License-Identifier/ { next }
    { is_told = 1; begins[FILENAME] = /^\/[*\/]/ }
    END { for (i = 1; i < ARGC; i++) if (!begins[ARGV[i]]) print ARGV[i] }' $sources)"
# An operation that no test of the CPU's kernels calls could be anything.
ops=$(sed -n '/^#define DP_BACKEND_OPS/,/[^\\]$/p' kernels/backend.h | grep -oE '\<O\([a-z_]+\)' | tr -d 'O()')
none "every operation of the backends has a test on the CPU" "$([ -n "$ops" ] || echo "kernels/backend.h: its list is not found"
    for op in $ops; do grep -qE "CHECK_OP\([^,]*, $op,|ops->$op\(" tests/unit/kernels/test_kernels_*.c || echo "$op"; done)"
# Names and values in errors stand in 'single' quotes, as GNU programs have it. Behind = or : stands what a program reads:
# JSON, XML, a key of the configuration.
# shellcheck disable=SC2046
none "errors put names in single quotes" "$(grep -nE '[^=: ] ?\\"%[-.0-9*]*s' $(grep -vE '^(tests|doc)/' <<<"$sources"))"
# Whoever copies a file takes its licence along. Not in texts, drawings and data (recorded, or read by programs that
# know no comments), nor in what git alone reads.
if tracked=$(git ls-files 2>/dev/null) && [ -n "$tracked" ]; then
    none "every source says its licence within three lines" "$(
        grep -vE '\.(md|json|jsonl|svg|txt|out)$|^tests/data/|^LICENSE$|^debian/(copyright|source/format|.*README\.Debian)$|^\.[^/]*$' <<<"$tracked" |
            while read -r f; do [ ! -f "$f" ] || echo "$f"; done | xargs awk '
                FNR <= 3 && /^(\/\*|#|dnl|\.\\") SPDX-License-Identifier: BSD-3-Clause( \*\/)?$/ { says[FILENAME] = 1 }
                END { for (i = 1; i < ARGC; i++) if (!says[ARGV[i]]) print ARGV[i] }')"
    is "$(sed -n 3p LICENSE)" "Copyright (c) 2026, the DynPipe authors" "LICENSE is there"
else
    skip "every source says its licence within three lines" "this is no checkout of git"
    skip "LICENSE is there" "this is no checkout of git"
fi
version=$(sed -n 's/^AC_INIT(\[dynpipe\], \[\(.*\)\])$/\1/p' configure.ac)
case $version in
    *~dev) like "$(grep -m 1 '^## ' CHANGELOG.md)" "^## ${version%~dev} \(not released yet" "CHANGELOG.md and configure.ac name one version" ;;
    *) like "$(grep -m 1 '^## ' CHANGELOG.md)" "^## $version \(.*20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]" "CHANGELOG.md and configure.ac name one version" ;;
esac
# shellcheck disable=SC2086
none "no tabs" "$(grep -nP '\t' $sources)"
# shellcheck disable=SC2086
none "no line is longer than $MAX_COLUMNS columns" "$(grep -nE "^.{$((MAX_COLUMNS + 1)),}" $sources)"
# shellcheck disable=SC2086
none "no blanks at the end of a line" "$(grep -nE ' +$' $sources)"
# shellcheck disable=SC2086
none "no notes to oneself" "$(grep -nE '\b(TODO|FIXME|XXX|HACK)\b' $sources | grep -vE '"[^"]*XXX')"

# Documents: prose in paragraphs that one reads in one go; tables and code do not count.
MAX_WORDS=120
documents=$(find . -maxdepth 2 -name '*.md' \( -path './*.md' -o -path './doc/*' \) | sed 's|^\./||' | LC_ALL=C sort)
[ -n "$documents" ] || bail "no documents under $DP_SRCDIR"
# shellcheck disable=SC2086
none "no paragraph is longer than $MAX_WORDS words" "$(awk -v most=$MAX_WORDS '
    function ends() { if (words > most) print file ":" first ": " words " words"; words = 0 }
    FNR == 1 { ends(); file = FILENAME; in_code = 0 }
    /^ *```/ { ends(); in_code = !in_code; next }
    in_code { next }
    /^ *$/ || /^#/ || /^ *\|/ { ends(); next }
    /^    / && !words { next }
    /^ *([-*]|[0-9]+\.) / { ends() }
    { if (!words) first = FNR; words += NF }
    END { ends() }' $documents)"

# Whoever calls a function is told by its header: units, ownership, errors.
none "every prototype in a header has a word of contract, or its group has" "$(
    # shellcheck disable=SC2046
    awk '
        # A comment counts for the declarations behind it up to the next blank line; so does one behind a declaration.
        FNR == 1 { in_comment = depth = has_word = 0; text = "" }
        in_comment { if (/\*\//) { in_comment = 0; has_word = 1 } next }
        /^[ \t]*\/\*/ { if (/\*\//) has_word = 1; else in_comment = 1; next }
        /^$/ { has_word = 0; text = ""; next }
        /^#/ || in_macro { in_macro = /\\$/; next }
        {
            line = $0
            if (line ~ /\/\*/) { if (!depth) behind = 1; if (line !~ /\*\//) in_comment = 1 }
            gsub(/\/\*.*/, "", line)
            opened = gsub(/[{]/, "{", line); closed = gsub(/[}]/, "}", line)
            if (depth || opened) { depth += opened - closed; if (!depth) has_word = 0; text = ""; behind = 0; next }
            if (text == "") at = FNR
            text = text " " line
            if (line !~ /;/) next
            if (behind) has_word = 1
            if (!has_word && text ~ /^ [a-z].*[a-z0-9_]\(.*\).*;/ && text !~ /^ (typedef|extern|static)/) print FILENAME ":" at ":" text
            text = ""; behind = 0
        }
    ' $(grep -E '\.h$' <<<"$sources" | grep -v '^tests/') || echo "awk failed"
)"
# Not what the compiler counts (sizeof), nor what is made of named ones alone.
none "every number that has a name has a reason or a unit beside it, or its group has" "$(
    # shellcheck disable=SC2046
    awk '
        FNR == 1 { in_comment = is_covered = 0 }
        in_comment { if (/\*\//) { in_comment = 0; is_covered = 1 } next }
        /^[ \t]*\/\*/ { is_covered = /\*\//; in_comment = !is_covered; next }
        /^ *$/ { is_covered = 0; next }
        !/^[ \t]*#[ \t]*define[ \t]+[A-Za-z_0-9]+[ \t]/ { next }
        {
            value = $0; sub(/^[ \t]*#[ \t]*define[ \t]+[A-Za-z_0-9]+[ \t]+/, "", value)
            has_word = sub(/[ \t]*\/\*.*/, "", value); in_comment = has_word && !/\*\//
            gsub(/"[^"]*"/, "", value); gsub(/[A-Za-z_][A-Za-z_0-9]*/, "", value)
            if (!has_word && !is_covered && !/sizeof|\\$/ && value ~ /[0-9]/) print FILENAME ":" FNR ": " $0
        }
    ' $(grep -vE '^(tests|doc)/' <<<"$sources") || echo "awk failed"
)"
none "every file, test, section, function and link that is cited exists" "$(cited)"

if command -v shellcheck >/dev/null; then
    scripts=$({ grep -rlE '^#!/bin/(ba)?sh' check demo bootstrap .ci etc tests 2>/dev/null; find tests -name '*.sh'; } | LC_ALL=C sort -u)
    # shellcheck disable=SC2086
    none "shellcheck has nothing to say" \
        "$(printf '%s\n' $scripts | xargs -P "$(nproc)" -n 12 shellcheck -x -S warning -e SC1007 -f gcc 2>&1)"
else
    skip "shellcheck has nothing to say" "shellcheck is not installed"
fi
done_testing
