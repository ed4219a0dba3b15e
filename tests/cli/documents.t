#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What README.md and the documents for users and administrators promise is there: commands and their options, keys of
# both configurations, messages that are quoted; and what is installed links to what is installed.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2154 # tmp comes from lib.sh
cd "$DP_SRCDIR" || bail "no $DP_SRCDIR"
dynpiped=$DP_BUILDDIR/daemon/dynpiped worker=$DP_BUILDDIR/worker/dynpipe-worker
[ -x "$dynpiped" ] && [ -x "$worker" ] || skip_all "dynpiped or dynpipe-worker is not built"
guides="README.md doc/tutorial.md doc/admin.md doc/faq.md"

none() { # NAME TEXT: TEXT lists the offences
    is "$(printf '%s\n' "$2" | head -n 20)" "" "$1"
}

# ---- commands and options ----
# Each call: where code or a code span begins, behind a prompt or srun; up to a comment, a pipe or its end.
# shellcheck disable=SC2086 # several files
grep -ohE '(^    .*|`[^`]+`)' $guides | sed -E 's/^ {4}([$#] )?|^`|`$//g; s/^(exec )?srun .* (dynpipe-worker)/\2/; s/^build\/cli\///' |
    sed -nE 's/^(dynpipe|dynpiped|dynpipe-worker|\.\/demo|\.\/check|make)( [^`|#;)]*|$).*/\1\2/p' >"$tmp/calls"
commands=$("$dynpipe" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
for c in $commands; do "$dynpipe" "$c" --help >"$tmp/help.$c"; done
"$dynpiped" --help >"$tmp/help.dynpiped"
"$worker" --help >"$tmp/help.worker"
./demo --help >"$tmp/help.the-demo"
./check --help >"$tmp/help.the-check"
sbatch_options=$(grep -oE '"dynpipe(-[a-z-]+)?"' common/conf/options.c | tr -d '"')
[ -n "$sbatch_options" ] || bail "no options in common/conf/options.c"
has() { grep -qE -- "(^|[^-a-z])$1([^-a-z]|\$)" "$tmp/help.$2"; }
while read -r program rest; do
    case $program in
        dynpipe)
            sub=${rest%% *}
            case $sub in
                [A-Z]* | "" | -*) continue ;; # prose, or none
            esac
            if ! grep -qx -- "$sub" <<<"$commands"; then echo "dynpipe $rest: no command '$sub'"; continue; fi
            ;;
        dynpiped | dynpipe-worker) sub=${program#dynpipe-} ;;
        ./demo | ./check) sub=the-${program#./} ;;
        *) continue ;;
    esac
    for o in $(grep -oE -- '(^| )--?[a-zA-Z][a-z-]*' <<<"$rest"); do
        case $o in
            --*) has "$o" "$sub" ;;
            -?) has "$o" "$sub" ;;
        esac || echo "$program $rest: no option $o"
    done
done <"$tmp/calls" >"$tmp/wrong"
none "commands and options of dynpipe, dynpiped, dynpipe-worker, demo and check exist" "$(cat "$tmp/wrong")"
is "$(($(grep -c dynpipe "$tmp/calls") > 40))" 1 "more than 40 calls were looked at"
# shellcheck disable=SC2086
none "options of sbatch exist" "$(grep -ohE -- '--dynpipe(-[a-z-]+)?' $guides | sort -u | sed 's/^--//; s/-$//' | grep -vxF "$sbatch_options")"
for t in $(sed -n 's/^make \([a-z-]*\).*/\1/p' "$tmp/calls" | sort -u); do
    # Packaging may not be there yet.
    case $t in deb | rpm) [ -d packaging ] || continue ;; esac
    grep -qE "^([a-z-]+ )*$t( [a-z-]+)*:" "$DP_BUILDDIR/Makefile" || echo "make $t"
done >"$tmp/wrong"
none "targets of make exist" "$(cat "$tmp/wrong")"

# ---- keys ----
keys() { awk '/^[a-z_]+: \{/ { sub(":", "", $1); section = $1 } /^ +[a-z_0-9]+ = / { print section "." $1 }'; }
{ "$dynpiped" --print-config; "$worker" --print-config; } | keys | sort -u >"$tmp/keys"
is "$(($(wc -l <"$tmp/keys") > 60))" 1 "both configurations have keys"
sections=$(cut -d. -f1 "$tmp/keys" | sort -u | paste -sd'|')
# Two are quoted as mistakes.
# shellcheck disable=SC2086
none "keys exist" "$(grep -ohE "(^|[^-a-z._/])($sections)\\.[a-z_]+\\b" $guides | sed -E 's/^[^a-z]//' | sort -u |
    grep -vxFf "$tmp/keys" | grep -vx -e prune.fnal -e run.default_slodown | grep -vE '\.(c|h|md|svg|json|jsonl|conf|txt|sh)$')"
# Without their section, in tables of keys and in prose.
for k in max_mode cooldown_s history_hours checkpoint.every_s; do
    runs "the documents' $k is a key" grep -qE "(^|\\.)$k\$" "$tmp/keys"
done

# ---- messages ----
# In the documents, and in the sources with adjacent strings put together.
find cli common daemon lib policies spank_plugin worker demo tests/lib etc/examples '(' -name '*.[ch]' -o -name '*.sh' -o -name demo ')' -exec cat {} + |
    tr '\n' ' ' | sed 's/" *"//g; s/\\"/"/g' >"$tmp/sources"
# shellcheck disable=SC2086
cat $guides | tr '\n' ' ' | tr -s ' ' >"$tmp/documents"
while IFS= read -r m; do
    [ -n "$m" ] || continue
    grep -qF -- "$m" "$tmp/documents" || echo "not in the documents any more: $m"
    grep -qF -- "$m" "$tmp/sources" || echo "no source says: $m"
done >"$tmp/wrong" <<'M'
first measured, then they leave
 a step (now 
workers without layers leave; measured without them, 
 ms are allowed
 after it was drained
against the fixed layout: 
 are free for others before its end
configuration is fine
; the nearest known one is 
unknown key 
from here to the end, pruning foreseen; against the layout of the start
 ms a step predicted, 
held now
are the most efficient
nothing to release
of the cooldown are left
packing is stopped
packing waits: 
one release in the life of a job: without slurmdbd this Slurm shrinks a job once
; all answered
a checkpoint will be written at the next step
paused: the layout stays as it is until `dynpipe resume`
shows the hand-over
two slices are left, and A, B and C run. An urgent job wants a GPU; none is free, so Slurm takes one from a slice:
, the urgent job 
to the last bit, those of one worker alone
asks to be let go
saved and stopped at
back into the queue (start
configuration not reloaded, the old one stays
configuration reloaded
ready node=
does not name spank_dynpipe.so
none on this node
plugin, state_dir, munge and clock are right on
a running job may shrink
measuring and reporting
fewer than 
M
none "messages that are quoted are said" "$(cat "$tmp/wrong")"

# ---- what is installed ----
if make -s -C "$DP_BUILDDIR" install-data DESTDIR="$tmp/root" >"$tmp/make" 2>&1; then
    docdir=$(dirname "$(find "$tmp/root" -name README.md -path '*doc/*' -not -path '*/doc/README.md')")
    [ -d "$docdir" ] || docdir=$(find "$tmp/root" -type d -path '*share/doc/*' | head -n 1)
    find "$docdir" -name '*.md' | sort >"$tmp/installed"
    none "every document is installed" "$(for f in README.md doc/*.md; do [ -f "$docdir/$f" ] || echo "$f"; done)"
    # Links, one a line; code does not link.
    while read -r f; do
        grep -vE '^    ' "$f" | grep -oE '\]\([^() ]+\)' | sed 's/^](//; s/)$//' | while read -r l; do
            case $l in
                [a-z]*:*) continue ;;
                \#*) file=$f anchor=${l#\#} ;;
                *) file=$(dirname "$f")/${l%%#*} anchor=${l#"${l%%#*}"} anchor=${anchor#\#} ;;
            esac
            if [ ! -f "$file" ]; then echo "${f#"$docdir/"}: $l"; continue; fi
            [ -z "$anchor" ] || sed -n 's/^#\{1,6\} *//p' "$file" | tr '[:upper:] ' '[:lower:]-' | tr -cd 'a-z0-9_\n-' | grep -qx -- "$anchor" ||
                echo "${f#"$docdir/"}: $l has no such section"
        done
    done <"$tmp/installed" >"$tmp/wrong"
    none "every link of an installed document leads to an installed file" "$(cat "$tmp/wrong")"
    is "$(($(xargs grep -hoE '\]\([^() ]+\)' <"$tmp/installed" | grep -c .) > 60))" 1 "more than 60 links were looked at"
    # Man pages say where files are: those of this installation are there.
    prefix=$(sed -n 's/^prefix = //p' "$DP_BUILDDIR/Makefile")
    none "files below $prefix/share that the man pages name are installed" "$(
        find "$tmp/root" -path '*/man/*' -type f -exec grep -ohE "$prefix/share/doc/[A-Za-z0-9_./-]+" {} + | sed 's/[.,]$//' | sort -u |
            while read -r f; do [ -e "$tmp/root$f" ] || echo "$f"; done)"
else
    ok 1 "make install-data"
    diag "$(tail -n 20 "$tmp/make")"
fi

# ---- the index, and the door ----
none "doc/README.md names every document" "$(for f in doc/*.md; do
    [ "$f" = doc/README.md ] || grep -qF "](${f#doc/})" doc/README.md || echo "$f"
done)"
first=$(awk 'NR > 1 && NF { sub(/\. .*/, "."); print; exit }' README.md)
is "$(($(wc -w <<<"$first") <= 25))" 1 "README.md begins with a sentence of at most 25 words" || diag "$first"
done_testing
