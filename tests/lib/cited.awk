# SPDX-License-Identifier: BSD-3-Clause
# What comments and documents cite is there: files, tests, sections, facts of doc/slurm.md, functions and links.
# tests/unit/style.t runs it in the top folder: awk -f cited.awk LIST FILES..., LIST having the path of every file of the
# tree. Prints FILE:LINE: what is not there. What is no citation, but looks like one, is named in is_foreign.

# Files of others, of the build, or of an example.
BEGIN {
    split("config.h libconfig.h slurm.h llm.c train_gpt2.c linux/posix_acl_xattr.h b.c spank.h pan.c", list, " ")
    for (i in list) is_foreign[list[i]] = 1
}

function report(what) { if (!((FILENAME_OF, LINE_OF, what) in told)) print FILENAME_OF ":" LINE_OF ": " what; told[FILENAME_OF, LINE_OF, what] = 1 }

# Names of all ways to cite a file: its path, and every end of it that begins behind a slash.
function know(path, end) {
    end = path
    do { known[end] = path } while (sub("^[^/]*/", "", end))
}

FNR == NR { sub(/^\.\//, ""); know($0); if (match($0, /[0-9][0-9][0-9][0-9]-[a-z-]*\.t$/)) numbered[substr($0, RSTART, 4)] = numbered[substr($0, RSTART, 4)] " " substr($0, RSTART); next }

FNR == 1 {
    kind = FILENAME ~ /\.[ch]$/ ? "c" : FILENAME ~ /\.md$/ ? "md" : FILENAME ~ /\.[0-9]\.in$/ ? "man" : "script"
    in_comment = in_fence = 0
}

kind == "md" {
    if ($0 ~ /^ *```/) { in_fence = !in_fence; next }
    if (in_fence) next
    if ($0 ~ /^#+ /) { h = $0; sub(/^#+ /, "", h); head(FILENAME, h) }
    line = $0
    while (match(line, /\*\*[^*]+\*\*/)) { bold(FILENAME, substr(line, RSTART + 2, RLENGTH - 4)); line = substr(line, RSTART + RLENGTH) }
    keep($0, FNR); next
}
kind == "man" { keep($0, FNR); next }
kind == "script" { if ($0 ~ /^[ \t]*#/) keep($0, FNR); next }

# C: comments go one way, as one line each, code the other.
{
    line = $0
    if (!in_comment) { gsub(/\\./, "", line); }
    while (line != "") {
        if (in_comment) {
            end = index(line, "*/")
            part = end ? substr(line, 1, end - 1) : line
            if (comment != "") sub(/^ *\*? ?/, " ", part)
            comment = comment part
            if (!end) break
            keep(comment, began); bold(FILENAME, comment)
            in_comment = 0; line = substr(line, end + 2)
        } else {
            # a string hides what looks like the beginning of a comment
            begin = match(line, /\/\*|"|\/\//) ? RSTART : 0
            if (!begin) { code(line); break }
            code(substr(line, 1, begin - 1))
            if (substr(line, begin, 1) == "\"") {
                line = substr(line, begin + 1)
                end = index(line, "\""); line = end ? substr(line, end + 1) : ""
            } else if (substr(line, begin, 2) == "//") { keep(substr(line, begin + 2), FNR); break }
            else { in_comment = 1; comment = ""; began = FNR; line = substr(line, begin + 2) }
        }
    }
}

function code(text) {
    while (match(text, /(dp|coord|test|fuzz)_[a-z0-9_]+/)) { is_code[substr(text, RSTART, RLENGTH)] = 1; text = substr(text, RSTART + RLENGTH) }
}
function keep(text, line) { n++; text_of[n] = text; file_of[n] = FILENAME; line_of[n] = line; kind_of[n] = kind }
function head(file, title, slug) {
    bold(file, title)
    slug = tolower(title)
    gsub(/[^a-z0-9 _-]/, "", slug); gsub(/ /, "-", slug)
    anchors[file, slug] = 1
}
function bold(file, title) { titles[file] = titles[file] "\n" title }

END {
    for (i = 1; i <= n; i++) {
        FILENAME_OF = file_of[i]; LINE_OF = line_of[i]
        files(text_of[i]); tests(text_of[i]); sections(text_of[i]); facts(text_of[i]); functions(text_of[i])
        if (kind_of[i] == "md") links(text_of[i], file_of[i])
    }
}

# what: the citation; before, after: the characters beside it.
function step(re) {
    if (!match(rest, re)) return 0
    before = RSTART > 1 ? substr(rest, RSTART - 1, 1) : last
    what = substr(rest, RSTART, RLENGTH); last = substr(what, RLENGTH, 1)
    after = substr(rest, RSTART + RLENGTH, 1)
    rest = substr(rest, RSTART + RLENGTH)
    return 1
}
function start(text) { rest = text; last = "" }

function files(text) {
    start(text)
    while (step("[A-Za-z0-9_+-][A-Za-z0-9_+./-]*\\.(c|h|md|t|inc|pml)")) {
        if (before ~ /[A-Za-z0-9_\/.$*<}|:-]/ || after ~ /[A-Za-z0-9_*\/]/ || what in known || what in is_foreign) continue
        if (what ~ /^[0-9]*\.t$/ || what ~ /^-/ || what ~ /\.\./) continue
        report(what " is no file of this tree")
    }
}
# Programs by their names, scripts by their numbers.
function tests(text) {
    start(text)
    while (step("[a-z0-9_/]*(test|fuzz)_[a-z0-9_]*[a-z0-9]")) {
        if (before ~ /[A-Za-z0-9_.$*}<"'-]/ || after ~ /[*.\/_}]/ || what in known || (what ".c") in known || what in is_code || what !~ /(^|\/)(test|fuzz)_/) continue
        if (what ~ /\// || kind_of[i] == "md") report(what " is no test")
    }
    start(text)
    while (step("(e2e|integration|cluster)/[0-9][0-9][0-9][0-9](-[a-z-]*[a-z])?"))
        if (!is_numbered(what)) report(what " is no test")
}
function is_numbered(name, number) {
    sub("^.*/", "", name)
    number = substr(name, 1, 4)
    return index(numbered[number], " " name)
}
# doc/protocol.md, "Session"
function sections(text, parts, path) {
    start(text)
    while (step("[A-Za-z0-9_/]+\\.(md|h)\\)?( says)?,? \\(?\"[^\"]+\"")) {
        split(what, parts, "\"")
        path = what; sub(/\.(md|h).*/, "", path); path = path substr(what, length(path) + 1, what ~ /^[^ ]*\.md/ ? 3 : 2)
        if (parts[2] !~ /^[A-Z]/ || !(path in known)) continue
        if (!index(titles[known[path]], parts[2])) report(path " has no section \"" parts[2] "\"")
    }
}
# slurm.md F5, F6
function facts(text, parts, k, m) {
    start(text)
    while (step("slurm\\.md\\)? ?,? F[0-9]+(( to |, | and |, and )F[0-9]+)*")) {
        gsub(/[^F0-9]+/, " ", what); m = split(what, parts, " ")
        for (k = 1; k <= m; k++) if (parts[k] ~ /^F[0-9]+$/ && !index(titles["doc/slurm.md"], "\n" parts[k] ".")) report("doc/slurm.md has no " parts[k])
    }
}
function functions(text) {
    start(text)
    while (step("(dp|coord)_[a-z0-9_]+\\(\\)")) {
        sub(/\(\)/, "", what)
        if (before !~ /[A-Za-z0-9_]/ && !(what in is_code)) report("there is no " what "()")
    }
}
function links(text, file, folder, target, anchor, at) {
    start(text)
    while (step("\\]\\([^() ]+\\)")) {
        target = substr(what, 3, length(what) - 3)
        if (target ~ /^[a-z]+:/) continue
        anchor = ""
        if (at = index(target, "#")) { anchor = substr(target, at + 1); target = substr(target, 1, at - 1) }
        folder = file; if (!sub("/[^/]*$", "/", folder)) folder = ""
        target = target == "" ? file : folder target
        while (sub("[^/]+/\\.\\./", "", target)) ;
        sub(/^\.\//, "", target); sub(/\/$/, "", target)
        if (!(target in known) && !is_folder(target)) report("a link to " target ", which is not there")
        else if (anchor != "" && !((target, anchor) in anchors)) report("a link to " target "#" anchor ", which has no such section")
    }
}
function is_folder(path, k) {
    for (k in known) if (index(known[k], path "/") == 1) return 1
    return 0
}
