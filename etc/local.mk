# SPDX-License-Identifier: BSD-3-Clause
# parts of etc/ (see Makefile.am). Nothing is put in force by an installation: configurations and
# snippets lie with the examples, the unit goes where --with-systemdsystemunitdir says.
examplesdir = $(docdir)/examples
dist_examples_DATA = etc/dynpipe.conf etc/gpt-prune.conf etc/gpt2-124m.conf \
	etc/examples/headroom.c etc/examples/own_loop.py etc/examples/torch_pipeline.py etc/examples/simulate-7b.json etc/examples/simulate-cluster.json etc/examples/simulate-gpt24.json etc/examples/two-towers.txt
dist_examples_SCRIPTS = etc/examples/own_loop.sbatch etc/examples/resume.sh etc/examples/torch_pipeline.sbatch etc/examples/train.sh
examples_DATA = etc/plugstack.conf.example

bashcompdir = $(datadir)/bash-completion/completions
dist_bashcomp_DATA = etc/bash-completion/dynpipe

if SYSTEMD
systemdsystemunit_DATA = etc/dynpiped.service
sysusersdir = $(prefix)/lib/sysusers.d
tmpfilesdir = $(prefix)/lib/tmpfiles.d
else
examples_DATA += etc/dynpiped.service
endif
# What `dynpipe plan --costs=estimate` reads.
dist_pkgdata_DATA = etc/graph-costs.json etc/graph-devices.json

EXTRA_DIST += etc/dynpipe.sysusers etc/dynpipe.tmpfiles etc/dynpiped.service.in etc/plugstack.conf.example.in
CLEANFILES += etc/dynpiped.service etc/plugstack.conf.example

etc/dynpiped.service: etc/dynpiped.service.in Makefile
	@$(MKDIR_P) etc
	$(AM_V_GEN)$(fill_in) '$(srcdir)/etc/dynpiped.service.in' >$@.tmp && mv $@.tmp $@
etc/plugstack.conf.example: etc/plugstack.conf.example.in Makefile
	@$(MKDIR_P) etc
	$(AM_V_GEN)$(fill_in) '$(srcdir)/etc/plugstack.conf.example.in' >$@.tmp && mv $@.tmp $@

# Both are known by the name of the package, not by that of the source.
install-data-local:
if SYSTEMD
	$(MKDIR_P) '$(DESTDIR)$(sysusersdir)' '$(DESTDIR)$(tmpfilesdir)'
	$(INSTALL_DATA) '$(srcdir)/etc/dynpipe.sysusers' '$(DESTDIR)$(sysusersdir)/dynpipe.conf'
	$(INSTALL_DATA) '$(srcdir)/etc/dynpipe.tmpfiles' '$(DESTDIR)$(tmpfilesdir)/dynpipe.conf'
endif
uninstall-local:
if SYSTEMD
	rm -f '$(DESTDIR)$(sysusersdir)/dynpipe.conf' '$(DESTDIR)$(tmpfilesdir)/dynpipe.conf'
endif

AM_DISTCHECK_CONFIGURE_FLAGS = --with-systemdsystemunitdir='$${prefix}/lib/systemd/system'
