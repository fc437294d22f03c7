# The builds, each in its own directory. Sourced; needs $root and say(). A warning is an error only here: a user may have a
# compiler that warns about more.

sanitizer_flags=(-Db_sanitize=address,undefined -Db_lundef=false)

# build DIRECTORY [meson options…]: configures it the first time, compiles what changed.
build() {
	local directory="$root/$1"
	shift
	if [ ! -f "$directory/build.ninja" ]; then
		meson setup "$directory" "$root" "$@" || return
	fi
	meson compile -C "$directory"
}

build_gcc() {
	CC=gcc build build -Dwerror=true
}

build_clang() {
	CC=clang build build-clang -Dbuildtype=release -Dwerror=true && meson compile -C "$root/build-clang" bench
}

# With sanitizers gcc's guesses about snprintf lengths are noise; the plain build has them on.
build_asan() {
	CC=gcc build build-asan -Dwerror=true "${sanitizer_flags[@]}" \
		-Dc_args="-Wno-format-overflow -Wno-format-truncation"
}

# A release build with its tests. The optimiser of gcc finds faults that the plain build does not show.
build_optimised() {
	CC=gcc build build-optimised -Dbuildtype=release -Dwerror=true
}

# What users run: optimised, no tests in it.
build_release() {
	CC=gcc build build-release -Dbuildtype=release -Dtests=false
}

# The release with the librdkafka that the image and the packages contain; compare its speed with that of build_release().
build_shipped() {
	local prefix
	prefix=$(PYTHONPATH="$root/tests" python3 -m support.librdkafka) &&
		CC=gcc build build-shipped -Dbuildtype=release -Dtests=false -Dlibrdkafka=static --pkg-config-path "$prefix/lib/pkgconfig"
}

build_tsan() {
	CC=clang build build-tsan -Dtests=false -Db_sanitize=thread -Db_lundef=false
}

build_faults() {
	CC=gcc build build-faults -Dfaultpoints=true
}

# libFuzzer needs its coverage in the libraries, too.
build_fuzz() {
	CC=clang build build-fuzz -Dfuzz=true -Dtests=false "${sanitizer_flags[@]}" \
		-Dc_args=-fsanitize=fuzzer-no-link
}
