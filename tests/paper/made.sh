# Files that commands make once, whichever script comes first, to be sourced.

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 2
}

# made FILE COMMAND...: makes a file of what the command writes, whole or not at all, unless it is there already, by the
# same command: FILE.by says by which. Of scripts that run side by side one makes it and the others wait. What the command
# says goes to FILE.log, and if it fails to stderr too. It must be one pipeline or && list: -e is off in it.
made() {
    mkdir -p "$(dirname "$1")"
    (
        file=$1 start=$SECONDS
        shift
        flock 9
        if [[ -e $file ]]; then
            [[ $(< "$file.by") == "$*" ]] || fail "$file is of other parameters, see $file.by; name another WORK"
            exit
        fi
        "$@" > "$file.part" 2> "$file.log" 9>&- || {
            status=$?
            { echo "$(basename "$0"): $file: status $status" && tail -n 20 "$file.log"; } >&2
            exit "$status"
        }
        echo "$*" > "$file.by"
        mv "$file.part" "$file"
        echo "made ${file#"$WORK/"} in $((SECONDS - start)) s" >&2
    ) 9>> "$1.log"
}
