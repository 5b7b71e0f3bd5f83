#!/usr/bin/env bash
# The .debs in a clean Debian 12: root_test.sh OLDER NEWER, two folders of packages. Makes a root with debootstrap from the sources that this
# machine's apt knows, and runs in_root.sh there, whose "passed:" and "FAILED:" lines are the result. The root is removed at the end.
set -uo pipefail
[ "${DPI_OWN_MOUNTS:-}" = yes ] || DPI_OWN_MOUNTS=yes exec unshare --mount --propagation private "$0" "$@"  # so that no mount stays
older="$(cd "$1" && pwd)" newer="$(cd "$2" && pwd)"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
source="$(cd "$here/../.." && pwd)"
scratch="$(mktemp -d -p "$newer/..")"
root="$scratch/root"
finish() {
  local folder
  for folder in dev/pts sys proc dev; do umount -l "$root/$folder" 2>/dev/null; done
  rm -rf --one-file-system "$scratch"
}
trap finish EXIT

release=bookworm
mirror="$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' | awk -v r="$release" '$2 == r && $3 == "main" { print $1; exit }')"
[ -n "$mirror" ] || { echo "skipped: the .debs in a clean Debian root: apt knows no source of $release"; exit 0; }
proxy=""
eval "$(apt-config shell proxy Acquire::http::Proxy)"
env ${proxy:+http_proxy="$proxy"} debootstrap --variant=minbase "$release" "$root" "$mirror" >"$scratch/log" 2>&1 ||
  { tail -n 5 "$scratch/log"; echo "FAILED: debootstrap"; exit 1; }

# What this machine's apt needs to reach its sources: settings, keys, certificates, names.
for folder in apt.conf.d auth.conf.d keyrings trusted.gpg.d sources.list.d; do
  [ ! -d "/etc/apt/$folder" ] || { rm -rf "$root/etc/apt/$folder" && cp -rL "/etc/apt/$folder" "$root/etc/apt/"; }
done
rm -f "$root/etc/apt/sources.list"
[ ! -f /etc/apt/sources.list ] || cp /etc/apt/sources.list "$root/etc/apt/"
mkdir -p "$root/etc/ssl/certs" "$root/usr/share/keyrings"
cp -L /etc/resolv.conf "$root/etc/"
cp -Ln /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" 2>/dev/null
cp -n /usr/share/keyrings/* "$root/usr/share/keyrings/" 2>/dev/null
for folder in proc dev sys; do mount --rbind "/$folder" "$root/$folder" || exit 1; done

mkdir -p "$root/test"
cp -r "$older" "$root/test/older"
cp -r "$newer" "$root/test/newer"
cp "$here/in_root.sh" "$source/samples/go/smallest/main.go" "$source/samples/java/Score.java" "$here/dies.c" "$here/stores.c" "$here/consumer.py" "$here/samples_test.py" "$root/test/"
# The recipe's block in README.md, continued lines joined.
sed -n '/^for samples in /,/^```$/{/^```/!p}' "$source/packaging/doc/guide/install.md" >"$root/test/page_folder.sh"
sed -n '/^```dockerfile$/,/^```$/{/^```/!p}' "$source/packaging/README.md" | sed ':a;/\\$/{N;s/\\\n *//;ba}' >"$root/test/Containerfile"
env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 chroot "$root" bash /test/in_root.sh
