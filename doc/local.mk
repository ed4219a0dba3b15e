# SPDX-License-Identifier: BSD-3-Clause
# parts of doc/ (see Makefile.am)
check_PROGRAMS += doc/print_messages
doc_print_messages_SOURCES = doc/print_messages.c
doc_print_messages_LDADD = common/libdpcommon.a
dist_check_SCRIPTS += tests/unit/messages-doc.t
TESTS += tests/unit/messages-doc.t

man_pages = doc/dynpipe.1 doc/dynpipe.3 doc/dynpipe-worker.1 doc/dynpipe.conf.5 doc/dynpiped.8 doc/spank_dynpipe.8
man_sources = doc/dynpipe.1.in doc/dynpipe.3.in doc/dynpipe-worker.1.in doc/dynpipe.conf.5.in doc/dynpiped.8.in doc/spank_dynpipe.8.in
man_MANS += $(man_pages)
EXTRA_DIST += $(man_sources)
CLEANFILES += $(man_pages)
$(man_pages): $(man_sources) Makefile
	@$(MKDIR_P) doc
	$(AM_V_GEN)$(fill_in) '$(srcdir)/$@.in' >$@.tmp && mv $@.tmp $@

# Documents are installed as they lie here: README.md in docdir, the others in docdir/doc. What they link to outside of
# that is installed elsewhere or not at all; doc/links.awk makes their links follow.
documents = README.md CHANGELOG.md \
	doc/README.md doc/admin.md doc/benchmarks.md doc/cluster.md doc/cuda.md doc/design.md doc/faq.md doc/glossary.md doc/graphs.md doc/json.md \
	doc/kernels.md doc/messages.md doc/paper.md doc/policies.md doc/protocol.md doc/schemes.md doc/security.md doc/simulator.md \
	doc/slurm.md doc/trainers.md doc/tutorial.md
pictures = doc/idea.svg doc/run.svg
EXTRA_DIST += $(documents) $(pictures) doc/links.awk doc/results/README.md doc/results/gpu.md doc/results/graphs.md doc/results/graphs.svg doc/results/layers.md doc/results/learn.md doc/results/schemes.md doc/results/schemes-a.svg \
	doc/results/schemes-b.svg doc/results/slices.md
installed_documents = build-doc/README.md build-doc/CHANGELOG.md
installed_doc = \
	build-doc/doc/README.md build-doc/doc/admin.md build-doc/doc/benchmarks.md build-doc/doc/cluster.md \
	build-doc/doc/cuda.md build-doc/doc/design.md build-doc/doc/faq.md build-doc/doc/glossary.md build-doc/doc/graphs.md build-doc/doc/json.md \
	build-doc/doc/kernels.md build-doc/doc/messages.md build-doc/doc/paper.md build-doc/doc/policies.md \
	build-doc/doc/protocol.md build-doc/doc/schemes.md build-doc/doc/security.md build-doc/doc/simulator.md \
	build-doc/doc/slurm.md build-doc/doc/trainers.md build-doc/doc/tutorial.md
doc_DATA = $(installed_documents)
docsdir = $(docdir)/doc
docs_DATA = $(installed_doc)
dist_docs_DATA = $(pictures)
CLEANFILES += $(installed_documents) $(installed_doc)
$(installed_documents) $(installed_doc): $(documents) doc/links.awk Makefile
	@$(MKDIR_P) build-doc/doc
	$(AM_V_GEN)f='$@'; f=$${f#build-doc/}; $(AWK) -v file="$$f" -v installed='$(documents) $(pictures)' \
		-v examples='$(dist_examples_DATA) $(dist_examples_SCRIPTS)' -f '$(srcdir)/doc/links.awk' "$(srcdir)/$$f" >$@.tmp && mv $@.tmp $@
