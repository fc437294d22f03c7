#!/bin/sh
# build.sh PREFIX [SOURCE]: builds librdkafka as a static library for inboxd, and installs it into the directory PREFIX.
#
# SOURCE is an archive of its source: a path, a URL, or npm:PACKAGE@VERSION, which the program npm downloads. Default:
# $LIBRDKAFKA_SOURCE, or else the URL in `sources`. Only archives whose SHA-256 is in `sources` are accepted. OpenSSL, libcurl, zstd,
# lz4 and Cyrus SASL stay shared libraries, so that the distribution updates them. If PREFIX has this build already, the
# script does nothing. Then:
#
#   meson setup build -Dlibrdkafka=static --pkg-config-path PREFIX/lib/pkgconfig
set -eu

here=$(cd "$(dirname "$0")" && pwd)
prefix=${1:?usage: build.sh PREFIX [SOURCE]}
version=$(sed -n 's/^version //p' "$here/sources")
source=${2:-${LIBRDKAFKA_SOURCE:-$(sed -n 's/^[0-9a-f]\{64\} \(https:.*\)/\1/p' "$here/sources" | head -n 1)}}
stamp="$prefix/built-with"
built_with=$(cat "$here/sources" "$here/build.sh" | sha256sum | cut -d ' ' -f 1)
cc=${CC:-cc}

fail() {
	echo "build.sh: $*" >&2
	exit 1
}

# The archive, at a path on this machine.
fetch() {
	case $source in
	*://*)
		curl --fail --silent --show-error --location --retry 3 --connect-timeout 20 --max-time 300 --output "$work/archive" "$source" ||
			fail "cannot download librdkafka $version. Give build.sh the path of an archive that is listed in $here/sources"
		;;
	npm:*) (cd "$work" && npm pack --silent "${source#npm:}" >/dev/null && mv ./*.tgz archive) ;;
	*) cp "$source" "$work/archive" ;;
	esac
}

# Exactly the bytes that somebody has looked at, in whatever directory the archive has them.
unpack() {
	digest=$(sha256sum "$work/archive" | cut -d ' ' -f 1)
	grep -q "^$digest " "$here/sources" ||
		fail "$source has the SHA-256 $digest, which is not listed in $here/sources. Nothing was built"
	mkdir "$work/unpacked"
	tar -xzf "$work/archive" -C "$work/unpacked"
	header=$(find "$work/unpacked" -path '*/src/rdkafka.h') && [ -f "$header" ] || fail "$source does not have one src/rdkafka.h"
	tree=${header%/src/rdkafka.h}
}

# A feature whose library is missing is an error: otherwise it would disappear from a release in silence. The C++ library is not built.
compile() {
	cd "$tree"
	flags="-g1 -fPIC -fstack-protector-strong -fstack-clash-protection -D_FORTIFY_SOURCE=2 -ffile-prefix-map=$tree=librdkafka"
	env -u CPPFLAGS -u CXXFLAGS -u LDFLAGS -u LIBS CC="$cc" CXX="$cc" CFLAGS="$flags" ./configure --prefix="$prefix" --no-download \
		--disable-debug-symbols --enable-ssl --enable-gssapi --enable-curl --enable-zlib --enable-zstd --enable-lz4-ext
	for feature in SSL SASL_CYRUS SASL_SCRAM SASL_OAUTHBEARER OAUTHBEARER_OIDC CURL ZLIB ZSTD LZ4_EXT SNAPPY; do
		grep -q "^WITH_$feature=.*y" Makefile.config || fail "librdkafka $version would be built without $feature"
	done
	env -u MAKEFLAGS -u MFLAGS make -C src -j "${JOBS:-$(nproc)}" librdkafka.a rdkafka-static.pc
	grep -q "^Version: $version\$" src/rdkafka-static.pc || fail "the source is not librdkafka $version"
}

# The stamp comes last: a prefix with a stamp is complete.
install_library() {
	install -D -m 644 src/rdkafka.h "$prefix/include/librdkafka/rdkafka.h"
	install -D -m 644 src/librdkafka.a "$prefix/lib/librdkafka.a"
	install -D -m 644 src/rdkafka-static.pc "$prefix/lib/pkgconfig/rdkafka-static.pc"
	install -D -m 644 LICENSES.txt "$prefix/share/doc/librdkafka/LICENSES.txt"
	echo "$built_with" >"$stamp"
}

[ "$(cat "$stamp" 2>/dev/null)" = "$built_with" ] && exit 0
mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)
stamp="$prefix/built-with"
rm -f "$stamp"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fetch
unpack
compile
install_library
