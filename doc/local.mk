# SPDX-License-Identifier: BSD-3-Clause
# parts of doc/ (see Makefile.am)
EXTRA_DIST += doc/design.md doc/glossary.md doc/messages.md doc/protocol.md doc/security.md
check_PROGRAMS += doc/print_messages
doc_print_messages_SOURCES = doc/print_messages.c
doc_print_messages_LDADD = common/libdpcommon.a
dist_check_SCRIPTS += tests/unit/messages-doc.t
TESTS += tests/unit/messages-doc.t

man_pages = doc/dynpipe.1 doc/dynpipe-worker.1 doc/dynpipe.conf.5 doc/dynpiped.8 doc/spank_dynpipe.8
man_sources = doc/dynpipe.1.in doc/dynpipe-worker.1.in doc/dynpipe.conf.5.in doc/dynpiped.8.in doc/spank_dynpipe.8.in
man_MANS += $(man_pages)
EXTRA_DIST += $(man_sources)
CLEANFILES += $(man_pages)
$(man_pages): $(man_sources) Makefile
	@$(MKDIR_P) doc
	$(AM_V_GEN)$(fill_in) '$(srcdir)/$@.in' >$@.tmp && mv $@.tmp $@
