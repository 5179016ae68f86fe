# Makes the lab's guest: packages on the host, the stock kernel, and an initramfs with busybox, the modules of software
# RoCE and libibverbs. Sourced by scripts/rdma-lab.sh, which sets $lab (the folder that is written) and missing().

# What the host needs, and what the guest is made of.
lab_packages=(qemu-system-x86 busybox-static cpio kmod xz-utils iproute2 libibverbs1 libibverbs-dev ibverbs-providers ibverbs-utils)
lab_tools=(qemu-system-x86_64 busybox cpio depmod modprobe xz rdma ibv_devinfo)
# The checksums first: without crc32 rxe refuses its interface; newer kernels have them built in.
lab_checksums=(crc32_generic crc32c_generic)
lab_modules=(dummy ib_uverbs rdma_rxe)
lab_programs=(/usr/bin/ibv_devinfo /usr/bin/ibv_rc_pingpong /usr/bin/ibv_srq_pingpong)

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

may_install() {
  [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; }
}

# thrice runs a command up to three times: package mirrors have hiccups.
thrice() {
  local try
  for try in 1 2 3; do
    "$@" >>"$lab/apt.log" 2>&1 && return
    sleep $((try * 5))
  done
  return 1
}

apt_update() {
  [ -z "${lab_updated:-}" ] || return 0
  lab_updated=1
  as_root true && thrice as_root apt-get update -qq
}

# lacking prints the packages that are not installed.
lacking() {
  local p
  for p in "${lab_packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || echo -n " $p"
  done
}

install_packages() {
  local lacks tool command
  lacks=$(lacking)
  if [ -n "$lacks" ]; then
    command="apt-get install -y --no-install-recommends$lacks"
    may_install || missing "the packages$lacks; install them with: sudo $command"
    echo "rdma-lab: installing$lacks"
    apt_update || missing "an answer from the package mirrors (see $lab/apt.log)"
    # shellcheck disable=SC2086 # words
    thrice as_root env DEBIAN_FRONTEND=noninteractive $command -q -o DPkg::Lock::Timeout=120 ||
      missing "packages that apt-get could not install (see $lab/apt.log); try: sudo $command"
  fi
  for tool in "${lab_tools[@]}"; do
    command -v "$tool" >/dev/null 2>&1 || missing "$tool, though its package is installed"
  done
}

# kernel_package names the stock kernel's package; the cloud flavour lacks the modules.
kernel_package() {
  { apt-cache depends --important linux-image-amd64 2>/dev/null || true; } |
    sed -nE '/cloud/d;s/^ +Depends: (linux-image-[0-9][^ ]*)$/\1/p' | sed -n 1p
}

# unpack_kernel leaves boot/ and lib/modules/ of the stock kernel in folder $1. It is never installed.
unpack_kernel() {
  local name command='sudo apt-get update && apt-get download linux-image-amd64'
  name=$(kernel_package)
  if [ -z "$name" ] && may_install; then
    apt_update && name=$(kernel_package)
  fi
  [ -n "$name" ] || missing "the package linux-image-amd64 in apt's lists; see whether this works: $command"
  mkdir -p "$1/deb"
  if ! (cd "$1/deb" && thrice apt-get download -q -o APT::Sandbox::User=root "$name"); then
    # Lists older than the mirror name packages that are gone.
    may_install && apt_update && name=$(kernel_package) &&
      (cd "$1/deb" && thrice apt-get download -q -o APT::Sandbox::User=root "$name") ||
      missing "the kernel package $name (see $lab/apt.log); see whether this works: $command"
  fi
  dpkg -x "$1"/deb/linux-image-*.deb "$1"
  # Where the root is merged, packages put modules in usr/lib.
  [ -d "$1/lib/modules" ] || ln -s usr/lib "$1/lib"
  echo "$name $(dpkg-deb -f "$1"/deb/linux-image-*.deb Version)" >"$1/kernel"
  rm -r "$1/deb"
}

# copy_libraries copies the shared libraries that the programs $2... load to their own places under $1. What is there
# already, or in the guest (libc, libibverbs), is the same file.
copy_libraries() {
  local root=$1 library
  shift
  { ldd "$@" 2>/dev/null || true; } | sed -nE 's/^\t(.*=> )?(\/[^ ]+) .*/\2/p' | sort -u | while read -r library; do
    install -D -m 755 "$library" "$root$library"
  done
}

# copy_modules copies the modules with all they depend on, uncompressed, from the unpacked kernel $1 to $2.
copy_modules() {
  local from=$1 to=$2 version module file
  version=$(ls "$from/lib/modules")
  depmod -b "$from" "$version"
  : >"$to/etc/lab-modules"
  for module in "${lab_checksums[@]}" "${lab_modules[@]}"; do
    if modprobe -d "$from" -S "$version" --show-depends "$module"; then
      echo "$module" >>"$to/etc/lab-modules"
    elif [[ " ${lab_modules[*]} " = *" $module "* ]]; then
      exit 1
    fi
  done | sed -nE 's/^insmod ([^ ]+).*$/\1/p' | sort -u | while read -r file; do
    install -D -m 644 "$file" "$to/lib/modules/$version/${file#*"/modules/$version/"}"
  done
  find "$to/lib/modules" -name '*.xz' -exec xz -d {} +
  cp "$from/lib/modules/$version"/modules.{builtin,builtin.modinfo,order} "$to/lib/modules/$version/"
  depmod -b "$to" "$version"
}

make_guest() {
  local work=$lab/work root=$lab/work/root provider
  rm -rf "$work"
  mkdir -p "$work/kernel" "$root"/{bin,sbin,etc/libibverbs.d,usr/bin,lib,dev}
  unpack_kernel "$work/kernel"
  copy_modules "$work/kernel" "$root"
  provider=$(dpkg-query -L ibverbs-providers | grep -E '/librxe-rdmav[0-9]+\.so$')
  install -D "$provider" "$root$provider"
  cp /etc/libibverbs.d/rxe.driver "$root/etc/libibverbs.d/"
  cp "${lab_programs[@]}" "$root/usr/bin/"
  cp "$(command -v rdma)" "$root/usr/bin/rdma"
  cp "$(command -v busybox)" "$root/bin/busybox"
  ln -s busybox "$root/bin/sh"
  echo root:x:0:0:root:/root:/bin/sh >"$root/etc/passwd"
  printf '127.0.0.1 localhost lab\n::1 localhost\n' >"$root/etc/hosts"
  install -m 755 scripts/rdmalab/init "$root/init"
  # libibverbs itself is opened at run time, so no program that is packed later names it.
  copy_libraries "$root" "$provider" "${lab_programs[@]}" "$root/usr/bin/rdma"
  pack "$root" "$work/base.cpio"
  cp "$work"/kernel/boot/vmlinuz-* "$work/vmlinuz"
  mkdir -p "$lab/guest"
  mv "$work"/{base.cpio,vmlinuz} "$work/kernel/kernel" "$lab/guest/"
  rm -rf "$work"
}

# pack writes the tree $1 as the initramfs archive $2, uncompressed: unpacking in an emulated CPU costs more than reading.
pack() { (cd "$1" && find . -mindepth 1 | LC_ALL=C sort | cpio -o -H newc -R 0:0 --quiet) >"$2"; }

# recipe prints all that the guest is made from, but the kernel's version.
recipe() {
  dpkg-query -W -f '${Package} ${Version}\n' "${lab_packages[@]}" libc6
  sha256sum scripts/rdmalab/guest.sh scripts/rdmalab/init
}

guest_is_current() {
  [ -f "$lab/guest/stamp" ] && recipe | cmp -s - "$lab/guest/recipe" &&
    (cd "$lab/guest" && sha256sum --quiet --status -c stamp)
}

# guest makes the guest if it is not there, or was made from something else. One at a time.
guest() {
  mkdir -p "$lab"
  exec 9>"$lab/lock"
  flock 9
  install_packages
  if ! guest_is_current; then
    echo "rdma-lab: making the guest"
    rm -f "$lab/guest/stamp"
    set -E
    trap 'echo "rdma-lab: cannot make the guest: $BASH_COMMAND failed (${BASH_SOURCE[0]}:$LINENO)" >&2' ERR
    make_guest
    trap - ERR
    recipe >"$lab/guest/recipe"
    (cd "$lab/guest" && sha256sum vmlinuz base.cpio kernel recipe >stamp)
    echo "rdma-lab: made the guest with $(cat "$lab/guest/kernel"), $(du -h "$lab/guest/base.cpio" | cut -f1) in the initramfs"
  fi
  exec 9>&-
}
