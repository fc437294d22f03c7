# What the suites need from outside the repository, installed only when it is missing: apt packages,
# Python packages in .venv, the jars of Apache Kafka in the cache. Sourced; needs $root and say().

build_packages=(gcc libc6-dev make pkg-config meson ninja-build python3
	libssl-dev libpq-dev librdkafka-dev libyajl-dev libyaml-dev libevent-dev libxxhash-dev
	libcurl4-openssl-dev uthash-dev)
librdkafka_packages=(curl libcurl4-openssl-dev liblz4-dev libsasl2-dev libssl-dev libzstd-dev zlib1g-dev)
test_packages=(libcmocka-dev valgrind kcat python3-venv git openssl nghttp2-server pgbouncer)
clang_packages=(clang clang-format clang-tidy)
model_packages=(spin)
deploy_packages=(build-essential debhelper procps strace dpkg-dev libsystemd-dev systemd git python3-venv)
language_packages=(nodejs npm openjdk-17-jdk-headless maven)
kafka_packages=(openjdk-17-jre-headless maven)
meson_needed=1.0
go_needed=1.26.0
go_fetched=1.26.8

# try_again COMMAND…: runs a command that downloads, at most five times. The network or a mirror can be away for a minute or two.
try_again() {
	local pause
	for pause in 5 15 30 60 ''; do
		"$@" && return
		[ -n "$pause" ] || return 1
		say "failed, again in $pause s: $*"
		sleep "$pause"
	done
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		say "needed as root, and there is no sudo: $*"
		return 1
	fi
}

# Names those of the given packages that are not installed.
missing_packages() {
	local installed package
	installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null | grep ' installed$')
	for package in "$@"; do
		grep -q "^$package " <<<"$installed" || echo "$package"
	done
}

# A package whose programs came another way is not missing.
drop_provided() {
	local package
	while read -r package; do
		case $package in
		meson) command -v meson >/dev/null ;;
		ninja-build) command -v ninja >/dev/null ;;
		python3) command -v python3 >/dev/null ;;
		python3-venv) python3 -c 'import ensurepip' 2>/dev/null ;;
		maven) command -v mvn >/dev/null ;;
		openjdk-*-jdk*) command -v javac >/dev/null ;;
		openjdk-*) command -v java >/dev/null ;;
		nodejs) command -v node >/dev/null ;;
		golang-go) command -v go >/dev/null ;;
		nghttp2-server) command -v nghttpd >/dev/null ;;
		curl | npm | clang | clang-format | clang-tidy | git | valgrind | kcat | gcc | make | openssl)
			command -v "$package" >/dev/null ;;
		llvm) command -v llvm-symbolizer >/dev/null ;;
		*) false ;;
		esac || echo "$package"
	done
}

apt_install() {
	if [ -z "${apt_updated:-}" ]; then
		try_again as_root apt-get -qq update || return
		apt_updated=yes
	fi
	try_again apt_install_once "$@"
}

# apt-get update succeeds also without some of the lists.
apt_install_once() {
	as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get -qq -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "$@" >/dev/null && return
	as_root apt-get -qq update
	return 1
}

install_packages() {
	local missing
	command -v apt-get >/dev/null || {
		say "no apt-get here; make sure these are installed: $*"
		return 0
	}
	mapfile -t missing < <(missing_packages "$@" | drop_provided)
	[ ${#missing[@]} -eq 0 ] && return
	say "installing ${missing[*]}"
	apt_install "${missing[@]}"
}

# The server without a cluster of its own on the machine: every test brings one.
install_postgres() {
	local settings=/etc/postgresql-common/createcluster.conf
	compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && return
	say "installing PostgreSQL (no cluster is created)"
	apt_install postgresql-common || return
	as_root sed -ri 's/^#?(create_main_cluster) .*/\1 = false/' "$settings" || return
	apt_install postgresql
}

# .venv with the packages of requirements.txt; made again when that file changes.
install_venv() {
	local wanted="$root/tests/support/requirements.txt" stamp="$root/.venv/.requirements"
	cmp -s "$wanted" "$stamp" && return
	say "installing Python packages into .venv"
	rm -rf "$root/.venv"
	python3 -m venv "$root/.venv" &&
		try_again "$root/.venv/bin/pip" install -q --disable-pip-version-check -r "$wanted" &&
		cp "$wanted" "$stamp"
}

# Ubuntu 22.04 has a Meson older than the build needs: then one from PyPI, in .cache.
install_meson() {
	local own="$root/.cache/meson"
	if printf '%s\n' "$meson_needed" "$(meson --version)" | sort -CV; then
		return
	fi
	if [ ! -x "$own/bin/meson" ]; then
		say "installing Meson $meson_needed or later into .cache"
		install_packages python3-venv || return
		python3 -m venv "$own" && try_again "$own/bin/pip" install -q --disable-pip-version-check 'meson>=1.0' || return
	fi
	PATH="$own/bin:$PATH"
}

fetch_librdkafka() {
	PYTHONPATH="$root/tests" python3 -m support.librdkafka >/dev/null
}

# The static library that the image and the packages contain. Where its authors' site cannot be reached, npm has its source.
install_librdkafka() {
	install_packages "${librdkafka_packages[@]}" || return
	fetch_librdkafka 2>/dev/null && return
	install_packages nodejs npm && try_again fetch_librdkafka
}

fetch_kafka() {
	PYTHONPATH="$root/tests" python3 -m support.kafka --fetch-only >/dev/null
}

install_kafka() {
	install_packages "${kafka_packages[@]}" && try_again fetch_kafka
}

fetch_promtool() {
	PYTHONPATH="$root/tests" python3 -m support.promtool
}

update_and_fetch_promtool() {
	as_root apt-get -qq update && fetch_promtool >/dev/null
}

install_promtool() {
	fetch_promtool >/dev/null 2>&1 && return
	say "fetching promtool"
	try_again update_and_fetch_promtool
}

go_program() {
	PYTHONPATH="$root/tests" python3 -m "support.$1" >/dev/null
}

# install_go_program MODULE: that of tests/support which names the program. A compiler is installed only when it is needed.
install_go_program() {
	command -v go >/dev/null || go_program "$1" 2>/dev/null || install_packages golang-go || return
	try_again go_program "$1"
}

# Go for handlers/go. Debian 12 has 1.19, and Ubuntu 24.04 has 1.22, too old for the tools that check the library. An older Go fetches
# a newer one from the proxy for Go modules, with its checksum, as it does for any module.
install_go() {
	local own="$root/.cache/go-$go_fetched" platform from
	install_packages golang-go || return
	if printf 'go%s\n%s\n' "$go_needed" "$(go env GOVERSION)" | sort -CV; then
		return
	fi
	if [ ! -x "$own/bin/go" ]; then
		say "fetching Go $go_fetched into .cache"
		platform=$(go env GOOS)-$(go env GOARCH)
		from=$(cd / && try_again go mod download -json "golang.org/toolchain@v0.0.1-go$go_fetched.$platform" |
			sed -n 's/.*"Dir": "\(.*\)".*/\1/p') && [ -n "$from" ] || return
		rm -rf "$own.part"
		cp -r "$from" "$own.part" && chmod -R u+w "$own.part" && chmod +x "$own.part"/bin/* "$own.part"/pkg/tool/*/* &&
			mv "$own.part" "$own" || return # last: the directory is complete or absent
	fi
	export GOTOOLCHAIN=local PATH="$own/bin:$PATH"
}

# The sanitizers and libFuzzer of the clang that is there, and what names the frames of a report. Where
# they are no package of their own, clang brings them.
install_clang_runtime() {
	local version runtime
	install_packages clang llvm || return
	version=$(clang -dumpversion)
	runtime=libclang-rt-${version%%.*}-dev
	! apt-cache show "$runtime" >/dev/null 2>&1 || install_packages "$runtime"
}

install_build() {
	install_packages "${build_packages[@]}" && install_meson
}
