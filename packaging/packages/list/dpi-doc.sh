rpm=dpi-doc section=doc arch=all multi_arch=foreign notices=site
summary='Embedded inference for click-through-rate models: documentation'
about='The guide, the references of the C, Java and Go interfaces, of errors,
options and the program, pictures of plans, and what contributors need: one
static site, /usr/share/doc/dpi-doc/html/index.html, read without a network.'
files=(usr/share/doc/dpi-doc/html)
deb=('Suggests: www-browser')
rpm_tags=('License: Apache-2.0 AND GPL-2.0-only WITH Classpath-exception-2.0')
