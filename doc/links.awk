# SPDX-License-Identifier: BSD-3-Clause
# A document of this tree as it is installed: its links follow to where their targets are installed, and a link to what
# is not installed becomes its words.
#   awk -v file=doc/faq.md -v installed="README.md doc/faq.md ..." -v examples="etc/dynpipe.conf ..." -f links.awk doc/faq.md
# installed: files that lie at the same place below docdir as here. examples: those that lie in docdir/examples.
BEGIN {
    n = split(installed, list, " ")
    for (i = 1; i <= n; i++) place[list[i]] = list[i]
    n = split(examples, list, " ")
    for (i = 1; i <= n; i++) {
        name = list[i]
        sub(/^.*\//, "", name)
        place[list[i]] = "examples/" name
    }
    folder = file
    if (!sub(/[^\/]*$/, "", folder)) folder = ""
}
# "doc/../etc/x" is "etc/x".
function plain(path) {
    while (sub(/(^|\/)[^\/.][^\/]*\/\.\.\//, "/", path)) sub(/^\//, "", path)
    while (sub(/(^|\/)\.\//, "/", path)) sub(/^\//, "", path)
    return path
}
/^    / || /^```/ { print; next }
{
    out = ""
    while (match($0, /!?\[[^][]*\]\([^() ]+\)/)) {
        link = substr($0, RSTART, RLENGTH)
        out = out substr($0, 1, RSTART - 1)
        $0 = substr($0, RSTART + RLENGTH)
        words = link
        sub(/\]\([^()]*\)$/, "", words)
        sub(/^!?\[/, "", words)
        target = link
        sub(/^.*\]\(/, "", target)
        sub(/\)$/, "", target)
        anchor = ""
        if (match(target, /#.*$/)) { anchor = substr(target, RSTART); target = substr(target, 1, RSTART - 1) }
        if (target == "" || target ~ /^[a-z]+:/) { out = out link; continue }
        path = plain(folder target)
        if (!(path in place)) { out = out words; continue }
        to = place[path]
        # From doc/ up, unless it lies in doc/, too.
        if (folder != "") { if (index(to, folder) == 1) to = substr(to, length(folder) + 1); else to = "../" to }
        out = out (link ~ /^!/ ? "!" : "") "[" words "](" to anchor ")"
    }
    print out $0
}
