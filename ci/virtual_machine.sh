#!/usr/bin/env bash
# Usage: ci/virtual_machine.sh start DIRECTORY [PATH]...
#        ci/virtual_machine.sh run DIRECTORY PROGRAM [ARGUMENT]...
#        ci/virtual_machine.sh stop DIRECTORY
# Linux on an emulated RV64GC machine of two cores (QEMU's system emulation), for programs of this machine's directories.
# start boots it with Debian's kernel; the PATHs, read only, have the same names there. run executes a program with the
# caller's environment and working directory, prints what it printed, and ends with its status. DIRECTORY holds what the
# machine needs; one caller at a time runs a program.
# Needs: Debian, root, the network.
# Takes: half a minute to start.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
action=$1 directory=$2
shift 2
# The kernel and the shell for RV64GC, which Debian has since its release 13, whichever release this is.
download() {
    mkdir -p "$directory/apt/lists/partial" "$directory/apt/cache/archives/partial"
    local mirror
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror stable main" >"$directory/apt/sources"
    local options=(-qq -o Dir::Etc::SourceList="$directory/apt/sources" -o Dir::Etc::SourceParts=/nonexistent
        -o Dir::State::Lists="$directory/apt/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$directory/apt/cache"
        -o APT::Architecture=riscv64 -o APT::Architectures=riscv64 -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update
    local kernel
    kernel=$(apt-cache "${options[@]}" depends linux-image-riscv64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\).*/\1/p' | head -1)
    (cd "$directory" && apt-get "${options[@]}" download "$kernel" busybox-static)
    for package in "$directory"/*.deb; do dpkg -x "$package" "$directory/system"; done
}
# What the machine boots into: the modules for this machine's directories, and a loop that runs programs.
build_root() {
    local root=$directory/root kernel module
    kernel=$(basename "$directory"/system/usr/lib/modules/*)
    mkdir -p "$root"/{bin,dev,proc,sys,tmp,lib,host,jobs}
    cp "$directory/system/usr/bin/busybox" "$root/bin/"
    for module in drivers/virtio/virtio_mmio fs/netfs/netfs net/9p/9pnet net/9p/9pnet_virtio fs/9p/9p; do
        xz -dc "$directory/system/usr/lib/modules/$kernel/kernel/$module.ko.xz" >"$root/$(basename "$module").ko"
    done
    cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
for module in virtio_mmio netfs 9pnet 9pnet_virtio 9p; do insmod /$module.ko; done
mount -t 9p -o trans=virtio,version=9p2000.L,cache=none jobs /jobs
mount -t 9p -o trans=virtio,version=9p2000.L,cache=loose,msize=512000 host /host
while read -r path place; do
    mkdir -p "$place"
    mount --bind "/host$path" "$place"
done </jobs/paths
touch /jobs/ready
while :; do
    if [ -e /jobs/job ]; then
        rm /jobs/job
        sh /jobs/script >/jobs/output 2>&1
        echo $? >/jobs/status.new
        mv /jobs/status.new /jobs/status
    fi
    sleep 0.1
done
INIT
    chmod +x "$root/init"
    (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$directory/root.gz"
}
case $action in
    start)
        "$(dirname "$0")/install.sh" qemu-system-misc libc6-dev-riscv64-cross cpio xz-utils
        mkdir -p "$directory/jobs"
        [ -e "$directory/root.gz" ] || { download && build_root; }
        rm -f "$directory"/jobs/*
        printf '%s\n' "/usr/riscv64-linux-gnu/lib /lib" >"$directory/jobs/paths"
        for path; do printf '%s\n' "$path $path"; done >>"$directory/jobs/paths"
        setsid qemu-system-riscv64 -M virt -m 4G -smp 2 -nographic -no-reboot \
            -kernel "$directory"/system/boot/vmlinux-* -initrd "$directory/root.gz" -append "console=ttyS0 quiet" \
            -virtfs "local,path=$directory/jobs,mount_tag=jobs,security_model=none" \
            -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on \
            >"$directory/console" 2>&1 </dev/null &
        echo $! >"$directory/process"
        for ((second = 0; second < 120; second++)); do
            [ ! -e "$directory/jobs/ready" ] || exit 0
            kill -0 "$(cat "$directory/process")" || break
            sleep 1
        done
        echo "the emulated machine did not start; $directory/console says why" >&2
        exit 1
        ;;
    run)
        exec 9>"$directory/lock"
        flock 9
        jobs=$directory/jobs
        {
            export -p | grep -vE '^declare -x (PATH|TMPDIR|LD_[A-Z_]*|CARGO_TARGET_[A-Z0-9_]*RUNNER)=' | sed 's/^declare -x/export/'
            printf 'cd %q\n' "$PWD"
            printf '%q ' "$@"
        } >"$jobs/script"
        rm -f "$jobs/status"
        touch "$jobs/job"
        until [ -e "$jobs/status" ]; do
            if ! kill -0 "$(cat "$directory/process")" 2>/dev/null; then
                echo "the emulated machine stopped; $directory/console says why" >&2
                exit 1
            fi
            sleep 0.05
        done
        cat "$jobs/output"
        exit "$(cat "$jobs/status")"
        ;;
    stop) kill "$(cat "$directory/process")" ;;
    *) echo "$action is not start, run or stop" >&2; exit 2 ;;
esac
