#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The Debian packages: made from a tarball, installed, used by a private Slurm as an administrator is told to
# (README.Debian), and removed again with nothing left. All of it happens on an overlay of this machine in name spaces
# of its own, so that nothing of the machine changes.
# shellcheck disable=SC2086,SC2154
: "${DP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${DP_BUILDDIR:=$PWD}"
export DP_SRCDIR DP_BUILDDIR
# shellcheck source=tests/packages/lib.sh
. "$DP_SRCDIR/tests/packages/lib.sh"
names="dynpipe dynpiped dynpipe-worker spank-dynpipe libdynpipe1 libdynpipe-dev python3-dynpipe libdynpipe-policy-dev dynpipe-doc"

# ---- outside: packages, and a machine that may be changed
case ${DP_STAGE:-outside} in
    outside)
        [ "$(id -u)" = 0 ] || skip_all "only root can install packages"
        need_programs dpkg-buildpackage dh lintian unshare setpriv slurmctld
        [ -z "$(dpkg-query -W -f '${Status}\n' $names 2>/dev/null | grep -v '^unknown')" ] || skip_all "packages of DynPipe are installed here"
        over=$(mktemp -d "${TMPDIR:-/tmp}/dpoverXXXXXX") || bail "no temporary folder"
        trap 'case $BASHPID in $$) rmdir "$over" ;; esac' EXIT
        DP_STAGE=try DP_OVER=$over unshare -m -p -f --kill-child --propagation private "$0" || skip_all "this root can make no overlay of the machine"
        make_packages deb
        DP_STAGE=overlay DP_OVER=$over DP_PACKAGES=$packages unshare -m -p -f --kill-child --propagation private "$0"
        exit
        ;;
    try | overlay)
        root=$DP_OVER/root
        mount -t tmpfs -o mode=755 tmpfs "$DP_OVER" && mkdir "$DP_OVER"/{new,work,root} &&
            mount -t overlay -o "lowerdir=/,upperdir=$DP_OVER/new,workdir=$DP_OVER/work" overlay "$root" &&
            mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount --rbind /sys "$root/sys" &&
            mount -t tmpfs -o mode=1777 tmpfs "$root/tmp" && mount -t tmpfs -o mode=755 tmpfs "$root/run" || exit 1
        [ $DP_STAGE = overlay ] || exit 0
        mkdir "$root/run/lock"
        for folder in "$DP_SRCDIR" "$DP_BUILDDIR"; do
            mkdir -p "$root$folder" && mount --bind "$folder" "$root$folder" && mount -o remount,bind,ro "$root$folder" || exit 1
        done
        DP_STAGE=inside TMPDIR=/tmp exec chroot "$root" "$DP_SRCDIR/tests/packages/deb.t"
        ;;
esac

# ---- inside
cd / || exit 1
export DP_DYNPIPED=/usr/sbin/dynpiped DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
# shellcheck source=tests/lib/cluster-test.sh
. "$DP_SRCDIR/tests/lib/cluster-test.sh"
as() { local user=$1; shift; setpriv --reuid "$user" --regid "$user" --clear-groups "$@"; }
for f in passwd group; do sed -i '/^\(dynpipe\|dpowner\):/d' /etc/$f; done
echo dpowner:x:64991:64991::/:/bin/sh >>/etc/passwd
echo dpowner:x:64991: >>/etc/group

debs=()
for p in $names; do debs+=("$DP_PACKAGES/${p}"_[0-9]*.deb); done
runs "every package is there" ls "${debs[@]}"
lintian --allow-root --fail-on error "$DP_PACKAGES"/*.changes >"$D/lintian" 2>&1 </dev/null &
lintian=$!

# Everything that a package may change, and what dpkg and users' names change beside it.
inventory() {
    find /etc /usr /var /run /lib \( -path /var/lib/dpkg -o -path /var/cache -o -path /var/log -o -path /run/lock \) -prune -o \
        ! -type d -printf '%p %m %U %s\n' -o -printf '%p/ %m %U\n' | grep -vE '^/etc/(passwd|group|shadow|gshadow|subuid|subgid)-? |^/etc/\.pwd\.lock ' | LC_ALL=C sort
}
inventory >"$D/before"

dpkg -i "${debs[@]}" >"$D/install" 2>&1
ok $? "they can be installed" || diag "$(cat "$D/install")"
unlike "$(cat "$D/install")" "warning|error" "without a warning"
version=$(dynpipe --version)
is "$(dpkg-query -W -f '${Version}' dynpipe)" "${version#dynpipe }-1" "they have the version of the programs"
like "$(id dynpipe 2>&1)" '^uid=[1-9][0-9]{0,2}\(dynpipe\) gid=' "there is a user dynpipe, a system's own"
is "$(stat -c '%U %a' /run/dynpipe /var/lib/dynpipe | xargs)" "dynpipe 755 dynpipe 700" "who has the folders"
runs "the configuration is in force, and right" dynpiped --check-config
is "$(dynpiped --print-config | diff - <(sed '1,/^$/d' /etc/dynpipe/dynpipe.conf))" "" "and has the defaults"
fails "the daemon is not started before the administrator says so" pgrep -x dynpiped
simd=$(objdump -d /usr/bin/dynpipe-worker | grep -oE '%[yz]mm' | sort | uniq -c | awk '$1 > 1000' | wc -l)
is "$simd" "$([ "$(uname -m)" = x86_64 ] && echo 2 || echo 0)" "the worker has the kernels for AVX2 and AVX-512"
runs "a policy of a site can be made" sh -c "cd '$D' && cc -shared -fPIC -o headroom.so /usr/share/doc/dynpipe/examples/headroom.c \$(pkg-config --cflags --libs dynpipe-policy)"
# A trainer of one's own, where there is no daemon.
cat >"$D/joins.c" <<'X'
#include <dynpipe.h>
#include <stdio.h>

int main(void)
{
    uint32_t cut[] = {0, 4};
    struct dynpipe_run run = {.size = sizeof run, .n_workers = 1, .n_layers = 4, .microbatches = 1, .tokens_per_microbatch = 1,
                              .steps_total = 1, .cut = cut};
    char why[256] = "";
    struct dynpipe *d = dynpipe_join(&run, 1000, why, sizeof why);

    printf("%s: %d %s\n", dynpipe_version(), d ? dynpipe_is_connected(d) : -1, why);
    dynpipe_leave(d, DYNPIPE_COMPLETED, NULL);
    return 0;
}
X
runs "a trainer can be made" sh -c "cc -Wall -Werror -o '$D/joins' '$D/joins.c' \$(pkg-config --cflags --libs dynpipe)"
is "$(env -u DYNPIPE_SOCKET "$D/joins")" "${version#dynpipe }: 0 " "and runs where there is no daemon"
is "$(env -u DYNPIPE_SOCKET -u PYTHONPATH /usr/bin/python3 -c 'import dynpipe; print(dynpipe.version())')" "${version#dynpipe }" \
    "the module for Python finds the library"
like "$(dpkg-query -W -f '${Depends}; ${Recommends}' python3-dynpipe)" "^[^;]*libdynpipe1[^;]*; python3-torch$" "and can do without PyTorch"
is "$(dpkg-query -W -f '${Depends} ${Recommends}' dynpipe dynpiped spank-dynpipe | grep -oE 'libdynpipe1|python3?|torch' | sort -u)" "" \
    "daemon, plugin and command want neither the library nor Python"
is "$(find /usr/share/man -name '*dynpipe*' | sed 's|.*/||' | LC_ALL=C sort | xargs)" \
    "dynpipe-worker.1.gz dynpipe.1.gz dynpipe.3.gz dynpipe.conf.5.gz dynpiped.8.gz spank_dynpipe.8.gz" "every man page is there"

# ---- a private Slurm with what is installed
stack=/etc/slurm/plugstack.conf.d/dynpipe.conf
cluster_up --nodes 2 --gpus 1 --cpus 2 --split --no-daemon --plugstack "include /etc/slurm/plugstack.conf.d/*.conf"
sed -i -e 's|socket = ".*/%n.sock"|socket = "/run/dynpipe/%n.sock"|' -e 's|state_dir = .*|state_dir = "/var/lib/dynpipe/%n";|' "$D/etc/dynpipe.conf"
cp "$D/etc/dynpipe.conf" /etc/dynpipe/dynpipe.conf
export SLURMD_NODENAME=n1
fails "before the line in plugstack.conf.d is put in force there is no --dynpipe" sbatch --dynpipe --wrap true
sed -i 's/^#optional/optional/' $stack
for n in 1 2; do runs "the daemon of n$n starts" cluster start daemon:$n; done
dynpipe check >"$D/check" 2>&1
unlike "$(cat "$D/check")" "FAIL +(plugstack|plugin|daemon|socket|config)" "dynpipe check finds no fault in the plugin, nor in the daemons" || diag "$(cat "$D/check")"
mkdir "$D/out" && chown dpowner "$D/out"
cat "$DP_SRCDIR"/common/*.c "$DP_SRCDIR"/common/*/*.c >"$D/text.txt"
cat >"$D/train.sh" <<X
#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=1 --dynpipe=balance
srun $mpi -n 2 dynpipe-worker /usr/share/doc/dynpipe/examples/gpt-prune.conf data.path=$D/text.txt model.blocks=2 model.channels=32 \\
    model.context=32 train.steps=100 train.microbatches=2 prune.begin=20 prune.end=60 checkpoint.dir= \\
    output.log=$D/out/log.jsonl output.tune=$D/out/tune.json
X
job=$(cd "$D/out" && as dpowner sbatch --parsable -o "$D/out/train.out" "$D/train.sh")
like "$job" '^[0-9]+$' "sbatch takes --dynpipe"
wait_for 180 job_ended "$job"
is "$(job_state "$job")" COMPLETED "a run of an ordinary user trains" || diag "$(tail -n 20 "$D/out/train.out")"
is "$(grep -c '"loss"' "$D/out/log.jsonl")" 100 "all of its steps"
unlike "$(cat "$D/out/train.out")" "no daemon" "the daemons took part"
report_says() { dynpipe report -j "$job" 2>&1 | grep -q "completed after .* step 100 of 100"; }
wait_for 60 report_says
ok $? "dynpipe report knows it" || diag "$(dynpipe report -j "$job" 2>&1)"
is "$(drained_nodes)" "" "no node is drained"

# ---- an upgrade keeps what the administrator wrote; removal and purge
dpkg -i "${debs[@]}" >"$D/upgrade" 2>&1
ok $? "they can be installed again" || diag "$(cat "$D/upgrade")"
like "$(grep -v '^#' $stack)" "^optional " "the plugin is still in force"
runs "and so is the site's configuration" cmp "$D/etc/dynpipe.conf" /etc/dynpipe/dynpipe.conf
runs "the plugin's package is removed" dpkg -r spank-dynpipe
runs "where its line was forgotten Slurm goes on without it" timeout 60 srun -n 1 true
fails "and --dynpipe is unknown" sbatch --dynpipe --wrap true
is "$(drained_nodes)" "" "no node is drained by that"
cluster down
dpkg -P $names >"$D/purge" 2>&1
ok $? "all are purged" || diag "$(cat "$D/purge")"
unlike "$(cat "$D/purge")" "warning|error|not empty" "without a warning"
wait $lintian
ok $? "lintian finds no error" || diag "$(cat "$D/lintian")"
inventory >"$D/after"
is "$(diff "$D/before" "$D/after")" "" "nothing is left"
done_testing
