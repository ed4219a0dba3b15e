# SPDX-License-Identifier: BSD-3-Clause
# The example of a site policy (etc/examples/headroom.c), compiled as a site compiles it: against what
# `make install` installs, staged below a folder of the test. Source it after tests/lib/tap.sh.
# shellcheck shell=bash

# site_policy DIR: DIR/headroom.so. Three tests.
site_policy() {
    local dir=$1 cc cflags flags
    cc=$(sed -n 's/^CC = //p' "$DP_BUILDDIR/Makefile")
    cflags=$(sed -n 's/^SANITIZER_CFLAGS = //p' "$DP_BUILDDIR/Makefile")
    env -u MAKEFLAGS -u MFLAGS make -s -C "$DP_BUILDDIR" DESTDIR="$dir/root" prefix=/usr libdir=/usr/lib includedir=/usr/include \
        install-nobase_policyincludeHEADERS install-libLIBRARIES install-pkgconfigDATA >"$dir/install" 2>&1
    ok $? "headers, library and pkg-config file are installed"
    if pkg-config --version >/dev/null 2>&1; then
        sed -i 's|^prefix=.*|prefix=/usr|;s|^libdir=.*|libdir=/usr/lib|;s|^includedir=.*|includedir=/usr/include|' \
            "$dir/root/usr/lib/pkgconfig/dynpipe-policy.pc"
        flags=$(PKG_CONFIG_SYSROOT_DIR=$dir/root PKG_CONFIG_PATH=$dir/root/usr/lib/pkgconfig pkg-config --cflags --libs dynpipe-policy)
        like "$flags" "-I$dir/root/usr/include/dynpipe .*-ldynpipe-policy" "pkg-config knows where they are"
    else
        flags="-I$dir/root/usr/include/dynpipe -L$dir/root/usr/lib -ldynpipe-policy"
        skip "pkg-config knows where they are" "pkg-config is not installed"
    fi
    # shellcheck disable=SC2086 # lists of flags
    (cd "$dir" && $cc $cflags -std=gnu11 -Wall -Wextra -Werror -shared -fPIC -o headroom.so \
        "$DP_SRCDIR/etc/examples/headroom.c" $flags) >"$dir/cc" 2>&1
    ok $? "the example compiles with nothing else: $(head -n 3 "$dir/cc")"
    chmod 644 "$dir/headroom.so"
}
