#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The byte tables that people read are those of the codecs.
echo 1..1
if "$DP_BUILDDIR/doc/print_messages" | cmp - "$DP_SRCDIR/doc/messages.md"; then
    echo "ok 1 - doc/messages.md is up to date"
else
    echo "not ok 1 - doc/messages.md is out of date: doc/print_messages > doc/messages.md"
    exit 1
fi
