# SPDX-License-Identifier: BSD-3-Clause
# The picture of `paper`: above, whole-run throughput of every policy over that of the static layout, with what was
# published as lines; below, tokens/s per device over bandwidth. Variables: layers, bandwidth (files of tab-separated
# columns, one block for 8 and one for 720 devices), out, numbers (columns of layers besides the first), blocks.
set terminal svg size 1700,1150 font "DejaVu Sans,13" background "white"
set output out
set datafile separator "\t"
set datafile missing "NaN"
set multiplot layout 2,2 title "GPT, hidden 1024, pruned to 52, 79, 89 and 90 %, simulated with published rates of an A100 (doc/paper.md)" font ",15"
set border 3
set tics nomirror
set pointsize 0.9

array title[2] = ["8 devices", "720 devices: 90 pipelines of 8"]
array first[2] = [1.29, 2.54]
array second[2] = [1.4, 5.6]
pruning = 3.18 # its abstract names no number of devices
set grid xtics ytics lc rgb "#dddddd"
set logscale y 2
set yrange [0.25:14]
set ytics (0.25, 0.5, 1, 2, 4, 8)
set xtics rotate by 40 right font ",11"
set ylabel "whole run, times the static layout"
set key top left horizontal maxrows 1 samplen 1 width 1 title "layers" left Left reverse
set rmargin 20
k = 2 # where no point is valid, gnuplot 6 looks at it outside of the loop
do for [i = 0:1] {
    set title title[i + 1] . "; lines: published"
    set xrange [-0.7:policies - 0.3]
    unset label
    set label sprintf(" %.4g abstract 2024", first[i + 1]) at graph 1, first first[i + 1] offset 0, -0.4 font ",11"
    set label sprintf(" %.4g rebuttal 2024", second[i + 1]) at graph 1, first second[i + 1] offset 0, 0.4 font ",11"
    set label sprintf(" %.4g DynMo, pruning", pruning) at graph 1, first pruning offset 0, 0.4 font ",11"
    plot for [k = 2:numbers + 1] layers index i using 0:k:xtic(1) with points pt (k - 2) * 2 + 5 title columnheader(k), \
        first[i + 1] with lines dt 2 lw 2 lc rgb "#444444" notitle, \
        second[i + 1] with lines dt 4 lw 2 lc rgb "#444444" notitle, \
        pruning with lines dt 5 lw 2 lc rgb "#444444" notitle
}
unset label
set rmargin

unset logscale y
set ytics autofreq
set xtics norotate autofreq font ",13"
set grid ytics lc rgb "#dddddd"
set style data linespoints
set logscale x
set xrange [0.9:440]
set yrange [0:*]
set xlabel "GB/s"
set ylabel "tokens/s of a held device, whole run"
set key bottom right vertical samplen 3 maxrows 9 notitle Right noreverse
do for [i = 0:1] {
    set title title[i + 1] . (i ? ", bandwidth between nodes" : ", bandwidth of all links") . sprintf(", %d layers", blocks)
    plot for [k = 2:4] bandwidth index i using 1:k lw 2 title columnheader(k)
}
unset multiplot
