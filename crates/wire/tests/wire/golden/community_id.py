#!/usr/bin/env python3
"""Prints community_id.tsv: the Community IDs that tshark gives the packets of the captures named
below (seed 0), one line for each of their first 40 packets
that tshark does not call malformed.

    cd TRAFFIC && python3 community_id.py > community_id.tsv        (made with TShark 4.0.17)
"""
import subprocess

CAPTURES = """
zeek/communityid__icmp.pcap zeek/communityid__icmp6.pcap zeek/communityid__ipv6.pcap
zeek/communityid__sctp.pcap zeek/communityid__tcp.pcap zeek/communityid__udp.pcap
zeek/icmp__icmp-destunreach-udp.pcap zeek/icmp__icmp-timeexceeded.pcap
zeek/icmp__icmp6-router-solicit.pcap zeek/icmp__icmp6-router-advert.pcap
zeek/icmp__icmp6-neighbor-solicit.pcap zeek/icmp__icmp6-toobig.pcap zeek/icmp__icmp6-redirect.pcap
zeek/icmp__icmp6-mldv1.pcap zeek/icmp__icmp6-mldv2.pcap pcapplusplus/IgmpPackets.pcap
pcapplusplus/IcmpPackets.pcap zeek/linux_dlt_sll2.pcap
""".split()

print("capture\tpacket\tcommunity_id")
for name in CAPTURES:
    command = ["tshark", "-n", "-r", name, "--enable-protocol", "communityid", "-Y", "communityid and not _ws.malformed",
               "-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE",
               "-T", "fields", "-e", "frame.number", "-e", "communityid"]
    for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines():
        packet, identity = line.split("\t")
        if int(packet) <= 40:
            print(name, packet, identity, sep="\t")
