# SPDX-License-Identifier: BSD-3-Clause
# parts of packaging/ and debian/ (see Makefile.am)
EXTRA_DIST += packaging/build packaging/dynpipe.spec.in packaging/rpmlint.toml packaging/stamp \
	debian/control debian/copyright debian/dynpipe-doc.install debian/dynpipe-worker.install debian/dynpipe.install \
	debian/dynpiped.README.Debian debian/dynpiped.install debian/dynpiped.postrm debian/dynpiped.prerm \
	debian/libdynpipe1.install debian/libdynpipe-dev.install debian/libdynpipe-policy-dev.install debian/rules debian/source/format \
	debian/python3-dynpipe.install debian/python3-dynpipe.postinst debian/python3-dynpipe.prerm \
	debian/spank-dynpipe.README.Debian debian/spank-dynpipe.install

deb rpm: dist
	'$(srcdir)/packaging/build' $@ '$(abs_builddir)/$(distdir).tar.gz' '$(abs_builddir)/build-packages/$@'
.PHONY: deb rpm
