#!/bin/sh
# rootfs.sh PROGRAM LIBRDKAFKA DIRECTORY: a file system with the program, its libraries, the certificates of public
# authorities and a user that is not root. glibc contains the name services "files" and "dns". LIBRDKAFKA is where
# deploy/librdkafka/build.sh has installed it.
set -eu

program=$1
librdkafka=$2
rootfs=$3
doc=$rootfs/usr/share/doc/inboxd
user=65532

# The loader and every library, at the paths where the program searches them.
libraries() {
	ldd "$program" | sed -n 's|.* => \(/[^ ]*\).*|\1|p; s|^[[:space:]]*\(/[^ ]*\) (.*|\1|p'
}

install -D -m 755 -s "$program" "$rootfs/usr/bin/inboxd"
for library in $(libraries); do
	install -D -m 755 "$(realpath "$library")" "$rootfs$library"
done
install -D -m 644 "$librdkafka/share/doc/librdkafka/LICENSES.txt" "$doc/librdkafka-LICENSES.txt"
# shellcheck disable=SC2046 # one word a library
"$(dirname "$0")/../sbom.py" "$program" $(libraries) >"$doc/inboxd.cdx.json"
install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$rootfs/etc/ssl/certs/ca-certificates.crt"
echo "inboxd:x:$user:$user:inboxd:/:/nonexistent" >"$rootfs/etc/passwd"
echo "inboxd:x:$user:" >"$rootfs/etc/group"
echo "hosts: files dns" >"$rootfs/etc/nsswitch.conf"
install -d -m 755 "$rootfs/etc/inboxd"
install -d -m 755 -o "$user" -g "$user" "$rootfs/run/inboxd"
