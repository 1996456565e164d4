#!/bin/sh
# The port is a number of an unprivileged port.
port=$(sed -n 's/^port *= *//p' config.ini)
case $port in
    '' | *[!0-9]*) echo "port is not a number: '$port'" >&2; exit 1 ;;
esac
[ "$port" -ge 1024 ] && [ "$port" -le 65535 ] || { echo "port out of range: $port" >&2; exit 1; }
